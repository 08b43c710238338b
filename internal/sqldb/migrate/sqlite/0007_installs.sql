-- +goose Up
-- The current install configuration, one row per device.
CREATE TABLE install_configs (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    device_id           INTEGER NOT NULL UNIQUE REFERENCES devices (id) ON DELETE CASCADE,
    version             INTEGER NOT NULL, -- last one written, never falls
    installs            TEXT   NOT NULL, -- canonical JSON array of items
    installs_hash       TEXT   NOT NULL, -- base64 of the SHA-256 of installs
    after_update_script TEXT,            -- byte for byte; NULL: none
    updated_by          TEXT   NOT NULL, -- "user 4", "key 3"
    created_at          INTEGER NOT NULL, -- Unix s
    updated_at          INTEGER NOT NULL  -- Unix s
);
-- Every version ever written, the current one included.
CREATE TABLE install_config_versions (
    device_id           INTEGER NOT NULL REFERENCES devices (id) ON DELETE CASCADE,
    version             INTEGER NOT NULL,
    installs            TEXT   NOT NULL,
    installs_hash       TEXT   NOT NULL,
    after_update_script TEXT,
    change_note         TEXT   NOT NULL,
    updated_by          TEXT   NOT NULL,
    created_at          INTEGER NOT NULL, -- Unix s
    PRIMARY KEY (device_id, version)
);
