-- +goose Up
-- What an operator allows single users in place of the settings.
CREATE TABLE user_quotas (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name    TEXT   NOT NULL, -- certificates, devices, …
    allowed INTEGER NOT NULL,
    PRIMARY KEY (user_id, name)
);
