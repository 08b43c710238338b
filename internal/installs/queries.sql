-- name: makeConfig :exec
INSERT INTO install_configs (device_id, version, installs, installs_hash, after_update_script, updated_by, created_at, updated_at)
VALUES (@device_id, COALESCE((SELECT MAX(n.version) FROM devices d JOIN install_config_counters n ON n.user_id = d.user_id AND n.public_id IN ('', d.public_id)
    WHERE d.id = @device_id), 0), '[]', '', NULL, '', @created_at, @created_at)
ON CONFLICT (device_id) DO NOTHING;

-- name: countVersion :exec
INSERT INTO install_config_counters (user_id, public_id, version, written_at)
SELECT d.user_id, d.public_id, CAST(@version AS BIGINT), CAST(@now AS BIGINT) FROM devices d WHERE d.id = @device_id
ON CONFLICT (user_id, public_id) DO UPDATE SET version = excluded.version, written_at = excluded.written_at;

-- name: userOfDevice :one
SELECT user_id FROM devices WHERE id = $1;

-- Those of devices that are gone, the oldest first, behind the newest @keep of the user's.
-- name: forgettable :many
SELECT n.public_id, n.version FROM install_config_counters n
WHERE n.user_id = @user_id AND n.public_id <> '' AND NOT EXISTS (SELECT 1 FROM devices d WHERE d.user_id = n.user_id AND d.public_id = n.public_id)
ORDER BY n.written_at DESC, n.public_id DESC LIMIT CAST(@max AS BIGINT) OFFSET CAST(@keep AS BIGINT);

-- name: forget :exec
DELETE FROM install_config_counters WHERE user_id = $1 AND public_id = $2;

-- name: raiseForgotten :exec
INSERT INTO install_config_counters (user_id, public_id, version, written_at) VALUES (@user_id, '', @version, @now)
ON CONFLICT (user_id, public_id) DO UPDATE SET version = excluded.version, written_at = excluded.written_at
WHERE install_config_counters.version < excluded.version;

-- name: getConfig :one
SELECT id, device_id, version, installs, installs_hash, after_update_script, updated_by, created_at, updated_at
FROM install_configs WHERE device_id = $1;

-- name: setConfig :exec
UPDATE install_configs
SET version = $2, installs = $3, installs_hash = $4, after_update_script = $5, updated_by = $6, updated_at = $7
WHERE device_id = $1;

-- name: insertVersion :exec
INSERT INTO install_config_versions (device_id, version, installs, installs_hash, after_update_script, change_note, updated_by, created_at, bytes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: sizes :many
SELECT version, bytes FROM install_config_versions WHERE device_id = @device_id ORDER BY version DESC LIMIT CAST(@max AS BIGINT);

-- name: pruneVersions :exec
DELETE FROM install_config_versions WHERE device_id = @device_id AND version < @oldest;

-- name: bytesOfUser :one
SELECT CAST(COALESCE(SUM(v.bytes), 0) AS BIGINT) FROM devices d JOIN install_config_versions v ON v.device_id = d.id WHERE d.user_id = $1;

-- name: getVersion :one
SELECT version, installs, installs_hash, after_update_script, change_note, updated_by, created_at
FROM install_config_versions WHERE device_id = $1 AND version = $2;

-- name: listVersions :many
SELECT version, installs_hash, change_note, updated_by, created_at
FROM install_config_versions WHERE device_id = $1 ORDER BY version DESC LIMIT $2 OFFSET $3;

-- name: countVersions :one
SELECT COUNT(*) FROM install_config_versions WHERE device_id = $1;
