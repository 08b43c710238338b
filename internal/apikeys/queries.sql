-- name: insertKey :one
INSERT INTO api_keys (user_id, name, prefix, token_hash, permissions, version, expires_in_seconds, created_at, updated_at, expires_at, last_used_at)
VALUES (sqlc.arg(user_id), sqlc.arg(name), sqlc.arg(prefix), sqlc.arg(token_hash), sqlc.arg(permissions), 1,
    sqlc.arg(expires_in_seconds), sqlc.arg(now), sqlc.arg(now), sqlc.arg(expires_at), 0)
RETURNING id;

-- name: keyByHash :one
SELECT k.id, k.user_id, k.version, k.expires_at, k.permissions
FROM api_keys k JOIN users u ON u.id = k.user_id
WHERE k.token_hash = $1 AND u.status = 'ACTIVE';

-- name: getKey :one
SELECT id, user_id, name, prefix, permissions, expires_in_seconds, created_at, updated_at, expires_at, last_used_at
FROM api_keys WHERE id = $1 AND user_id = $2;

-- name: listKeys :many
SELECT id, user_id, name, prefix, permissions, expires_in_seconds, created_at, updated_at, expires_at, last_used_at
FROM api_keys WHERE user_id = sqlc.arg(user_id)
ORDER BY id DESC LIMIT CAST(sqlc.arg(page_limit) AS BIGINT) OFFSET CAST(sqlc.arg(page_offset) AS BIGINT);

-- name: countKeys :one
SELECT COUNT(*) FROM api_keys WHERE user_id = $1;

-- Locks the row and reads it as it is.
-- name: lockKey :one
UPDATE api_keys SET updated_at = sqlc.arg(now) WHERE id = sqlc.arg(id) AND user_id = sqlc.arg(user_id)
RETURNING id, user_id, name, prefix, permissions, expires_in_seconds, created_at, updated_at, expires_at, last_used_at;

-- name: updateKey :exec
UPDATE api_keys SET name = $2, permissions = $3, version = version + 1 WHERE id = $1;

-- name: deleteKey :one
DELETE FROM api_keys WHERE id = $1 AND user_id = $2
RETURNING name, token_hash, expires_at;

-- name: insertRevoked :exec
INSERT INTO revoked_api_keys (token_hash, key_id, user_id, expires_at) VALUES ($1, $2, $3, $4);

-- name: revokedByHash :one
SELECT key_id, user_id FROM revoked_api_keys WHERE token_hash = $1;

-- name: forgetRevoked :exec
DELETE FROM revoked_api_keys WHERE expires_at <= $1;

-- name: noteUse :exec
UPDATE api_keys SET last_used_at = sqlc.arg(used_at) WHERE id = sqlc.arg(id) AND last_used_at < sqlc.arg(used_at);
