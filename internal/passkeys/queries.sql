-- name: insertHandle :exec
INSERT INTO passkey_handles (user_id, handle) VALUES ($1, $2) ON CONFLICT (user_id) DO NOTHING;

-- name: handleOf :one
SELECT handle FROM passkey_handles WHERE user_id = $1;

-- name: insertChallenge :exec
INSERT INTO passkey_challenges (hash, purpose, bound_to, expires_at) VALUES ($1, $2, $3, $4);

-- name: challengeStands :one
SELECT COUNT(*) FROM passkey_challenges
WHERE hash = $1 AND purpose = $2 AND bound_to = $3 AND expires_at > sqlc.arg(now);

-- name: useChallenge :execrows
DELETE FROM passkey_challenges
WHERE hash = $1 AND purpose = $2 AND bound_to = $3 AND expires_at > sqlc.arg(now);

-- name: deleteExpiredChallenges :execrows
DELETE FROM passkey_challenges WHERE expires_at <= $1;

-- name: insertPasskey :one
INSERT INTO passkeys (user_id, credential_id, public_key, algorithm, name, aaguid, transports, flags, sign_count,
    clone_warning, created_at, last_used_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, FALSE, $10, 0)
ON CONFLICT (credential_id) DO NOTHING
RETURNING id;

-- name: passkeysOf :many
SELECT * FROM passkeys WHERE user_id = $1 ORDER BY id DESC;

-- name: countPasskeys :one
SELECT COUNT(*) FROM passkeys WHERE user_id = $1;

-- An update that changes nothing locks the row on both engines.
-- name: lockPasskey :one
UPDATE passkeys SET sign_count = sign_count WHERE credential_id = $1 RETURNING *;

-- name: usedPasskey :exec
UPDATE passkeys SET sign_count = $1, flags = $2, last_used_at = $3 WHERE id = $4;

-- name: warnOfClone :exec
UPDATE passkeys SET clone_warning = TRUE WHERE id = $1;

-- name: deletePasskey :one
DELETE FROM passkeys WHERE id = $1 AND user_id = $2 RETURNING name;

-- name: lockUser :one
UPDATE users SET updated_at = updated_at WHERE id = $1 RETURNING id;
