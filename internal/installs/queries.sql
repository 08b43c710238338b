-- name: makeConfig :exec
INSERT INTO install_configs (device_id, version, installs, installs_hash, after_update_script, updated_by, created_at, updated_at)
VALUES ($1, 0, '[]', '', NULL, '', $2, $2)
ON CONFLICT (device_id) DO NOTHING;

-- name: getConfig :one
SELECT id, device_id, version, installs, installs_hash, after_update_script, updated_by, created_at, updated_at
FROM install_configs WHERE device_id = $1;

-- name: setConfig :exec
UPDATE install_configs
SET version = $2, installs = $3, installs_hash = $4, after_update_script = $5, updated_by = $6, updated_at = $7
WHERE device_id = $1;

-- name: insertVersion :exec
INSERT INTO install_config_versions (device_id, version, installs, installs_hash, after_update_script, change_note, updated_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: getVersion :one
SELECT version, installs, installs_hash, after_update_script, change_note, updated_by, created_at
FROM install_config_versions WHERE device_id = $1 AND version = $2;

-- name: listVersions :many
SELECT version, installs_hash, change_note, updated_by, created_at
FROM install_config_versions WHERE device_id = $1 ORDER BY version DESC LIMIT $2 OFFSET $3;

-- name: countVersions :one
SELECT COUNT(*) FROM install_config_versions WHERE device_id = $1;
