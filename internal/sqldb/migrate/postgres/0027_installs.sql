-- +goose Up
-- The last version of each device's configuration, by what the device is called: it outlives the device's row, so that a
-- number never repeats for an agent that was deleted and registers again. Under the public id '' stands the highest one
-- that was forgotten.
CREATE TABLE install_config_counters (
    user_id    BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    public_id  TEXT    NOT NULL,
    version    BIGINT NOT NULL,
    written_at BIGINT NOT NULL, -- Unix s
    PRIMARY KEY (user_id, public_id)
);
CREATE INDEX install_config_counters_age ON install_config_counters (user_id, written_at, public_id);
INSERT INTO install_config_counters (user_id, public_id, version, written_at)
SELECT d.user_id, d.public_id, c.version, c.updated_at FROM install_configs c JOIN devices d ON d.id = c.device_id;
ALTER TABLE install_config_versions ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0; -- of installs and script
UPDATE install_config_versions SET bytes = LENGTH(installs) + LENGTH(COALESCE(after_update_script, ''));
