-- name: insertUser :one
INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
RETURNING id;

-- name: insertFederatedUser :one
INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
VALUES (sqlc.arg(email), sqlc.arg(name), '', '', sqlc.arg(status), '[]', sqlc.arg(now), sqlc.arg(now))
ON CONFLICT DO NOTHING
RETURNING id;

-- name: deleteUnconfirmedUser :execrows
DELETE FROM users WHERE email = $1 AND email <> '' AND status = 'INACTIVE';

-- name: userByEmail :one
SELECT id, email, name, country_of_residence, password, status, roles, created_at, updated_at, disabled_at, renewals_held_at, invited_at
FROM users WHERE email = $1 AND email <> '';

-- name: userByID :one
SELECT id, email, name, country_of_residence, password, status, roles, created_at, updated_at, disabled_at, renewals_held_at, invited_at
FROM users WHERE id = $1;

-- name: userIDByName :one
SELECT id FROM users WHERE lower(name) = lower($1) AND name <> '';

-- name: listUsers :many
SELECT id, email, name, country_of_residence, password, status, roles, created_at, updated_at, disabled_at, renewals_held_at, invited_at
FROM users WHERE id > sqlc.arg(after) ORDER BY id LIMIT CAST(sqlc.arg(page_size) AS BIGINT);

-- name: setUserStatus :execrows
UPDATE users SET status = sqlc.arg(status), disabled_at = sqlc.arg(disabled_at), updated_at = sqlc.arg(updated_at) WHERE id = sqlc.arg(id);

-- name: setUserRoles :execrows
UPDATE users SET roles = $1, updated_at = $2 WHERE id = $3;

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
UPDATE sessions SET token_hash = sqlc.arg(new_hash), amr = sqlc.arg(amr), acr = sqlc.arg(acr), auth_time = sqlc.arg(auth_time),
    seen_at = sqlc.arg(now), expires_at = sqlc.arg(expires_at)
WHERE id = sqlc.arg(id) AND user_id = sqlc.arg(user_id) AND sessions.expires_at > sqlc.arg(now)
RETURNING id;

-- name: deleteSession :execrows
DELETE FROM sessions WHERE id = $1 AND user_id = $2;

-- name: deleteSessionsOfUser :execrows
DELETE FROM sessions WHERE user_id = $1;

-- name: deleteExpiredSessions :execrows
DELETE FROM sessions WHERE expires_at <= $1;

-- name: insertAccountRequest :one
INSERT INTO account_requests (kind, email, name, country_of_residence, password, ip, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
RETURNING id;

-- name: takeAccountRequest :one
DELETE FROM account_requests WHERE id = $1
RETURNING kind, email, name, country_of_residence, password, ip;

-- name: insertUnconfirmedUser :execrows
INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
VALUES (sqlc.arg(email), '', sqlc.arg(country_of_residence), sqlc.arg(password), 'INACTIVE', '[]', sqlc.arg(now), sqlc.arg(now))
ON CONFLICT DO NOTHING;

-- name: renewUnconfirmedUser :execrows
UPDATE users SET country_of_residence = $1, password = $2, updated_at = $3 WHERE id = $4 AND status = 'INACTIVE';

-- name: activateUser :execrows
UPDATE users SET status = $1, name = $2, country_of_residence = $3, password = $4, updated_at = $5 WHERE id = $6;

-- name: deleteUnconfirmedUsers :execrows
DELETE FROM users WHERE status = 'INACTIVE' AND updated_at <= $1;

-- name: deleteUnapprovedUsers :execrows
DELETE FROM users WHERE status = 'PENDING' AND updated_at <= $1;

-- name: insertCode :exec
INSERT INTO account_codes (email, purpose, code_hash, tries, tries_elsewhere, asked_from, name, country_of_residence, password, created_at, expires_at)
VALUES (sqlc.arg(email), sqlc.arg(purpose), sqlc.arg(code_hash), 0, 0, sqlc.arg(asked_from), sqlc.arg(name), sqlc.arg(country_of_residence),
    sqlc.arg(password), sqlc.arg(now), sqlc.arg(expires_at));

-- name: tryCodesHere :many
UPDATE account_codes SET tries = tries + 1
WHERE email = sqlc.arg(email) AND purpose = sqlc.arg(purpose) AND tries < CAST(sqlc.arg(most) AS BIGINT) AND expires_at > sqlc.arg(now)
    AND (asked_from = sqlc.arg(place) OR CAST(sqlc.arg(known) AS BIGINT) = 1)
RETURNING id, code_hash, name, country_of_residence, password;

-- name: tryCodesElsewhere :many
UPDATE account_codes SET tries_elsewhere = tries_elsewhere + 1
WHERE email = sqlc.arg(email) AND purpose = sqlc.arg(purpose) AND tries_elsewhere < CAST(sqlc.arg(most) AS BIGINT) AND expires_at > sqlc.arg(now)
    AND asked_from <> sqlc.arg(place) AND CAST(sqlc.arg(known) AS BIGINT) = 0
RETURNING id, code_hash, name, country_of_residence, password;

-- name: deleteCodesAskedFrom :execrows
DELETE FROM account_codes WHERE email = $1 AND purpose = $2 AND asked_from = $3;

-- name: deleteCode :execrows
DELETE FROM account_codes WHERE id = $1;

-- name: deleteCodesOf :execrows
DELETE FROM account_codes WHERE email = $1 AND purpose = $2;

-- name: deleteExpiredCodes :execrows
DELETE FROM account_codes WHERE expires_at <= $1;

-- name: readCodeKey :one
SELECT key_sealed FROM code_keys WHERE id = $1;

-- name: insertCodeKey :exec
INSERT INTO code_keys (id, key_sealed, created_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING;

-- name: administrators :many
SELECT id FROM users WHERE id > 0 AND roles <> '[]' AND roles LIKE '%"admin"%' AND status = 'ACTIVE' ORDER BY id LIMIT CAST(sqlc.arg(most) AS BIGINT);

-- name: insertSetupToken :exec
INSERT INTO setup_tokens (token_hash, created_at) VALUES ($1, $2);

-- name: setupToken :one
SELECT created_at FROM setup_tokens WHERE token_hash = $1;

-- name: useSetupToken :execrows
DELETE FROM setup_tokens WHERE token_hash = $1;

-- name: deleteSetupTokens :execrows
DELETE FROM setup_tokens;

-- name: countSessions :one
SELECT COUNT(*) FROM sessions WHERE user_id = sqlc.arg(user_id) AND expires_at > sqlc.arg(now);

-- name: listSessions :many
SELECT id, user_id, amr, acr, auth_time, ip, user_agent, created_at, seen_at, expires_at
FROM sessions WHERE user_id = sqlc.arg(user_id) AND expires_at > sqlc.arg(now)
ORDER BY id DESC LIMIT CAST(sqlc.arg(page_size) AS BIGINT) OFFSET CAST(sqlc.arg(page_start) AS BIGINT);

-- name: deleteOtherSessions :execrows
DELETE FROM sessions WHERE user_id = $1 AND id <> $2;

-- name: insertInvitedUser :one
INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at, invited_at)
VALUES (sqlc.arg(email), sqlc.arg(name), '', '', 'INACTIVE', sqlc.arg(roles), sqlc.arg(now), sqlc.arg(now), sqlc.arg(now))
RETURNING id;

-- name: disabledUsers :many
SELECT id FROM users WHERE disabled_at > 0 AND disabled_at <= sqlc.arg(before) AND renewals_held_at = 0
ORDER BY disabled_at LIMIT CAST(sqlc.arg(page_size) AS BIGINT);

-- name: enabledUsersHeld :many
SELECT id FROM users WHERE renewals_held_at > 0 AND id > sqlc.arg(after) AND disabled_at = 0
ORDER BY id LIMIT CAST(sqlc.arg(page_size) AS BIGINT);

-- name: setRenewalsHeld :execrows
UPDATE users SET renewals_held_at = sqlc.arg(held_at) WHERE id = sqlc.arg(id) AND (renewals_held_at > 0) <> (CAST(sqlc.arg(held_at) AS BIGINT) > 0);
