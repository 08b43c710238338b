-- name: insertDevice :one
INSERT INTO devices (user_id, public_id, public_key, status, session_no, families, name, platform, model, app_version,
    agent, agent_version, ip, user_agent, created_at, updated_at, last_seen_at)
VALUES (@user_id, @public_id, @public_key, 'ACTIVE', 1, 1, @name, @platform, @model, @app_version,
    '', '', @ip, @user_agent, @now, @now, @now)
ON CONFLICT (user_id, public_id) DO NOTHING
RETURNING *;

-- An update that changes nothing locks the row on both engines.
-- name: lockDevice :one
UPDATE devices SET updated_at = updated_at WHERE id = $1 RETURNING *;

-- name: lockDeviceByPublicID :one
UPDATE devices SET updated_at = updated_at WHERE user_id = $1 AND public_id = $2 RETURNING *;

-- name: updateDevice :one
UPDATE devices SET public_key = @public_key, status = 'ACTIVE', session_no = @session_no, families = @families, name = @name, platform = @platform,
    model = @model, app_version = @app_version, ip = @ip, user_agent = @user_agent, updated_at = @now, last_seen_at = @now
WHERE id = @id
RETURNING *;

-- name: setPushToken :exec
UPDATE devices SET push_token = $1 WHERE id = $2;

-- name: setAgent :exec
UPDATE devices SET agent = $1, agent_version = $2, updated_at = $3 WHERE id = $4;

-- name: touchDevice :exec
UPDATE devices SET last_seen_at = $1 WHERE id = $2;

-- name: endSession :exec
UPDATE devices SET session_no = families + 1, families = families + 1, updated_at = $1 WHERE id = $2;

-- name: setFamilies :exec
UPDATE devices SET families = $1 WHERE id = $2;

-- name: putWaitingKey :one
INSERT INTO device_waiting_keys (device_id, public_key, session_no, door, name, platform, model, app_version, ip, user_agent, address, created_at)
VALUES (@device_id, @public_key, @session_no, @door, @name, @platform, @model, @app_version, @ip, @user_agent, @address, @now)
ON CONFLICT (device_id) DO UPDATE SET public_key = excluded.public_key, session_no = excluded.session_no, door = excluded.door, name = excluded.name,
    platform = excluded.platform, model = excluded.model, app_version = excluded.app_version, ip = excluded.ip, user_agent = excluded.user_agent,
    address = excluded.address, created_at = excluded.created_at
RETURNING *;

-- name: waitingKey :one
SELECT * FROM device_waiting_keys WHERE device_id = $1;

-- name: waitingKeys :many
SELECT w.* FROM device_waiting_keys w JOIN devices d ON d.id = w.device_id
WHERE d.user_id = @user_id AND w.device_id >= @first AND w.device_id <= @last;

-- name: endWaitingSession :exec
UPDATE device_waiting_keys SET session_no = $1 WHERE device_id = $2;

-- name: dropWaitingKey :execrows
DELETE FROM device_waiting_keys WHERE device_id = $1;

-- name: getDevice :one
SELECT * FROM devices WHERE id = $1 AND user_id = $2;

-- name: getDeviceByPublicID :one
SELECT * FROM devices WHERE user_id = $1 AND public_id = $2;

-- ids: null for all, otherwise ",1,2,".
-- name: listDevices :many
SELECT * FROM devices
WHERE user_id = @user_id AND (CAST(sqlc.narg(ids) AS TEXT) IS NULL OR CAST(sqlc.narg(ids) AS TEXT) LIKE '%,' || CAST(id AS TEXT) || ',%')
ORDER BY id DESC
LIMIT CAST(@max_rows AS BIGINT) OFFSET CAST(@first_row AS BIGINT);

-- name: countAll :one
SELECT COUNT(*) FROM devices WHERE user_id = $1;

-- name: countDevices :one
SELECT COUNT(*) FROM devices
WHERE user_id = @user_id AND (CAST(sqlc.narg(ids) AS TEXT) IS NULL OR CAST(sqlc.narg(ids) AS TEXT) LIKE '%,' || CAST(id AS TEXT) || ',%');

-- name: deleteDevice :one
DELETE FROM devices WHERE id = $1 AND user_id = $2 RETURNING public_id;

-- name: readDeviceState :one
SELECT d.user_id, d.status, d.session_no, d.last_seen_at, CAST(COALESCE(w.session_no, 0) AS BIGINT) AS waiting_no
FROM devices d LEFT JOIN device_waiting_keys w ON w.device_id = d.id WHERE d.id = $1;

-- name: readUserStatus :one
SELECT status FROM users WHERE id = $1;

-- name: insertRefreshToken :one
INSERT INTO device_refresh_tokens (device_id, session_no, lookup, token_hash, created_at, expires_at, predecessor_id, address)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
RETURNING id;

-- name: readRefreshToken :one
SELECT * FROM device_refresh_tokens WHERE lookup = $1;

-- name: readPair :one
SELECT * FROM device_refresh_tokens WHERE id = $1 AND device_id = $2;

-- name: markRotated :exec
UPDATE device_refresh_tokens SET rotated_at = COALESCE(rotated_at, CAST(@now AS BIGINT)) WHERE id = @id;

-- name: markUsed :exec
UPDATE device_refresh_tokens SET used_at = @now WHERE id = @id AND used_at IS NULL;

-- The siblings of a pair that was used. 0 stands for no predecessor.
-- name: loseSiblings :exec
UPDATE device_refresh_tokens SET lost_at = @now
WHERE device_id = @device_id AND session_no = @session_no AND COALESCE(predecessor_id, 0) = CAST(@predecessor_id AS BIGINT) AND id <> @id
    AND used_at IS NULL AND lost_at IS NULL;

-- When one of the pairs was used that were given for the token.
-- name: successorUse :one
SELECT CAST(COALESCE(MIN(used_at), 0) AS BIGINT) FROM device_refresh_tokens
WHERE device_id = @device_id AND session_no = @session_no AND predecessor_id = @predecessor_id;

-- name: countFrom :one
SELECT COUNT(*) FROM device_refresh_tokens WHERE device_id = @device_id AND session_no = @session_no AND address = @address;

-- All but the newest unused siblings.
-- name: pruneSiblings :exec
DELETE FROM device_refresh_tokens WHERE device_refresh_tokens.device_id = @device_id AND device_refresh_tokens.session_no = @session_no
    AND COALESCE(device_refresh_tokens.predecessor_id, 0) = CAST(@predecessor_id AS BIGINT) AND device_refresh_tokens.used_at IS NULL AND device_refresh_tokens.lost_at IS NULL
    AND device_refresh_tokens.id <= (SELECT s.id FROM device_refresh_tokens s
        WHERE s.device_id = @device_id AND s.session_no = @session_no AND COALESCE(s.predecessor_id, 0) = CAST(@predecessor_id AS BIGINT)
            AND s.used_at IS NULL AND s.lost_at IS NULL
        ORDER BY s.id DESC LIMIT 1 OFFSET CAST(@keep AS BIGINT));

-- All but the newest that are over, of what came before a token.
-- name: pruneFamily :exec
DELETE FROM device_refresh_tokens WHERE device_refresh_tokens.device_id = @device_id AND device_refresh_tokens.session_no = @session_no
    AND device_refresh_tokens.id <= (SELECT t.id FROM device_refresh_tokens t
        WHERE t.device_id = @device_id AND t.session_no = @session_no AND t.id < @before
        ORDER BY t.id DESC LIMIT 1 OFFSET CAST(@keep AS BIGINT));

-- name: pruneFamilies :exec
DELETE FROM device_refresh_tokens WHERE device_id = @device_id AND session_no < @oldest AND session_no <> @alive AND session_no <> @waiting;

-- name: deleteExpiredRefreshTokens :exec
DELETE FROM device_refresh_tokens WHERE expires_at <= $1;

-- name: insertLogin :exec
INSERT INTO device_logins (device_code_hash, user_code_hash, scopes, name, platform, client_ip, user_agent, interval_s, status, polled_at, created_at, expires_at,
    public_id, public_key)
VALUES (@device_code_hash, @user_code_hash, @scopes, @name, @platform, @client_ip, @user_agent, @interval_s, 'PENDING', 0, @now, @expires_at,
    @public_id, @public_key);

-- name: loginByDeviceCode :one
SELECT * FROM device_logins WHERE device_code_hash = $1;

-- name: loginByUserCode :one
SELECT * FROM device_logins WHERE user_code_hash = $1;

-- name: markPolled :execrows
UPDATE device_logins SET polled_at = @now WHERE id = @id AND polled_at = @was;

-- name: decideLogin :one
UPDATE device_logins SET status = @status, user_id = @user_id, expires_at = @expires_at, chosen_device_id = @chosen_device_id
WHERE id = @id AND status = 'PENDING' AND device_logins.expires_at > @now
RETURNING id;

-- name: loginByID :one
SELECT * FROM device_logins WHERE id = $1;

-- name: deleteExpiredLogins :exec
DELETE FROM device_logins WHERE expires_at <= $1;

-- name: insertCode :one
INSERT INTO registration_codes (user_id, login_id, code_hash, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5)
RETURNING id;

-- name: sealCode :exec
UPDATE registration_codes SET code_sealed = $1 WHERE id = $2;

-- name: codeOfLogin :one
SELECT * FROM registration_codes WHERE login_id = $1;

-- name: codeByHash :one
SELECT * FROM registration_codes WHERE code_hash = $1 AND user_id = $2;

-- name: takeCode :one
UPDATE registration_codes SET used_at = @now, used_key = @used_key, code_sealed = NULL
WHERE code_hash = @code_hash AND user_id = @user_id AND used_at IS NULL AND expires_at > @now
RETURNING *;

-- name: bindCode :exec
UPDATE registration_codes SET used_device_id = $1 WHERE id = $2;

-- name: insertSigningKey :exec
INSERT INTO device_signing_keys (id, key_sealed, created_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING;

-- name: readSigningKeys :many
SELECT * FROM device_signing_keys ORDER BY id;
