-- name: insertUser :one
INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
RETURNING id;

-- name: insertFederatedUser :one
INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
VALUES (sqlc.arg(email), sqlc.arg(name), '', '', 'ACTIVE', '[]', sqlc.arg(now), sqlc.arg(now))
ON CONFLICT DO NOTHING
RETURNING id;

-- name: deleteUnconfirmedUser :execrows
DELETE FROM users WHERE email = $1 AND email <> '' AND status = 'INACTIVE';

-- name: userByEmail :one
SELECT id, email, name, country_of_residence, password, status, roles, created_at, updated_at
FROM users WHERE email = $1 AND email <> '';

-- name: userByID :one
SELECT id, email, name, country_of_residence, password, status, roles, created_at, updated_at
FROM users WHERE id = $1;

-- name: userIDByName :one
SELECT id FROM users WHERE lower(name) = lower($1) AND name <> '';

-- name: listUsers :many
SELECT id, email, name, country_of_residence, password, status, roles, created_at, updated_at
FROM users WHERE id > sqlc.arg(after) ORDER BY id LIMIT CAST(sqlc.arg(page_size) AS BIGINT);

-- name: setUserStatus :execrows
UPDATE users SET status = $1, updated_at = $2 WHERE id = $3;

-- name: setUserPassword :execrows
UPDATE users SET password = $1, updated_at = $2 WHERE id = $3;

-- name: sessionByHash :one
SELECT s.id, s.user_id, s.amr, s.acr, s.auth_time, s.seen_at, s.expires_at, u.roles
FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.token_hash = $1 AND u.status = 'ACTIVE';

-- name: sessionByID :one
SELECT id, user_id, amr, acr, auth_time, ip, user_agent, created_at, seen_at, expires_at
FROM sessions WHERE id = $1 AND user_id = $2;

-- name: insertSession :one
INSERT INTO sessions (user_id, token_hash, amr, acr, auth_time, ip, user_agent, created_at, seen_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
RETURNING id;

-- name: slideSession :execrows
UPDATE sessions SET seen_at = sqlc.arg(now), expires_at = sqlc.arg(expires_at)
WHERE id = sqlc.arg(id) AND seen_at = sqlc.arg(was_seen_at);

-- name: rotateSession :one
UPDATE sessions SET token_hash = sqlc.arg(new_hash), seen_at = sqlc.arg(now), expires_at = sqlc.arg(expires_at)
WHERE token_hash = sqlc.arg(old_hash) AND sessions.expires_at > sqlc.arg(now)
AND EXISTS (SELECT 1 FROM users u WHERE u.id = sessions.user_id AND u.status = 'ACTIVE')
RETURNING id, user_id;

-- name: raiseSession :one
UPDATE sessions SET token_hash = sqlc.arg(new_hash), amr = sqlc.arg(amr), acr = sqlc.arg(acr), auth_time = sqlc.arg(now),
    seen_at = sqlc.arg(now), expires_at = sqlc.arg(expires_at)
WHERE id = sqlc.arg(id) AND user_id = sqlc.arg(user_id) AND sessions.expires_at > sqlc.arg(now)
RETURNING id;

-- name: deleteSession :execrows
DELETE FROM sessions WHERE id = $1 AND user_id = $2;

-- name: deleteSessionsOfUser :execrows
DELETE FROM sessions WHERE user_id = $1;

-- name: deleteExpiredSessions :execrows
DELETE FROM sessions WHERE expires_at <= $1;
