-- +goose Up
-- What an operator allows single users in place of the settings.
CREATE TABLE user_quotas (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name    TEXT   NOT NULL, -- certificates, devices, …
    allowed BIGINT NOT NULL,
    PRIMARY KEY (user_id, name)
);
