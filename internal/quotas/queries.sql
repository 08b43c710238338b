-- name: quotaOf :one
SELECT allowed FROM user_quotas WHERE user_id = $1 AND name = $2;

-- name: setQuota :exec
INSERT INTO user_quotas (user_id, name, allowed) VALUES ($1, $2, $3)
ON CONFLICT (user_id, name) DO UPDATE SET allowed = excluded.allowed;
