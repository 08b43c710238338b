-- +goose Up
-- Numbers of token families are never used twice, whatever became of one.
ALTER TABLE devices ADD COLUMN families BIGINT NOT NULL DEFAULT 0; -- the highest number given
UPDATE devices SET families = session_no;

-- Another key of a known device, which gets nothing before its owner confirms it;
-- its token family is alive beside the device's own. The last one per device.
CREATE TABLE device_waiting_keys (
    device_id   BIGINT PRIMARY KEY REFERENCES devices (id) ON DELETE CASCADE,
    public_key  BYTEA NOT NULL, -- dev_pk: X25519, 32 bytes
    session_no  BIGINT NOT NULL, -- its token family
    door        TEXT   NOT NULL, -- how it came: registration_code, session, api_key
    name        TEXT   NOT NULL, -- this and the next five as the device says
    platform    TEXT   NOT NULL,
    model       TEXT   NOT NULL,
    app_version TEXT   NOT NULL,
    ip          TEXT   NOT NULL,
    user_agent  TEXT   NOT NULL,
    address     TEXT   NOT NULL, -- network address that it came from
    created_at  BIGINT NOT NULL
);

-- What a device says of itself when it begins a login, and the device that the
-- owner chose: an approval is good for these alone.
ALTER TABLE device_logins ADD COLUMN public_id TEXT NOT NULL DEFAULT '';
ALTER TABLE device_logins ADD COLUMN public_key BYTEA;
ALTER TABLE device_logins ADD COLUMN chosen_device_id BIGINT; -- null: none
