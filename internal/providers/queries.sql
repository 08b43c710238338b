-- name: insertAttempt :exec
INSERT INTO provider_attempts (hash, provider, purpose, browser, session_id, return_to, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: attemptExists :one
SELECT COUNT(*) FROM provider_attempts WHERE hash = $1;

-- name: takeAttempt :one
DELETE FROM provider_attempts WHERE hash = $1
RETURNING provider, purpose, browser, session_id, return_to, expires_at;

-- name: deleteExpiredAttempts :execrows
DELETE FROM provider_attempts WHERE expires_at <= $1;

-- name: useBinding :one
UPDATE provider_bindings SET last_used_at = $1, name = $2 WHERE issuer = $3 AND subject = $4
RETURNING id, user_id, provider, created_at;

-- name: insertBinding :one
INSERT INTO provider_bindings (user_id, provider, issuer, subject, name, created_at, last_used_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: bindingOwner :one
SELECT user_id FROM provider_bindings WHERE issuer = $1 AND subject = $2;

-- name: bindingsOf :many
SELECT provider, subject, name, created_at FROM provider_bindings WHERE user_id = $1 ORDER BY id;

-- name: deleteBinding :one
DELETE FROM provider_bindings WHERE user_id = $1 AND provider = $2 RETURNING subject;
