-- +goose Up
-- A pair is a refresh token and the access token that came with it. Pairs that
-- were given for one predecessor are siblings: the first that is used wins.
ALTER TABLE device_refresh_tokens ADD COLUMN used_at BIGINT;               -- first use of either token; null: neither was used
ALTER TABLE device_refresh_tokens ADD COLUMN lost_at BIGINT;               -- a sibling was used first
ALTER TABLE device_refresh_tokens ADD COLUMN address TEXT NOT NULL DEFAULT ''; -- network address it was given to
UPDATE device_refresh_tokens SET used_at = COALESCE(rotated_at, created_at);
ALTER TABLE device_refresh_tokens DROP COLUMN request_hash;
DROP INDEX device_refresh_tokens_device;
CREATE INDEX device_refresh_tokens_family ON device_refresh_tokens (device_id, session_no, id);
