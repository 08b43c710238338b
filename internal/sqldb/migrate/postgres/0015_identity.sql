-- +goose Up
-- Users who wait for an administrator have the status PENDING.
CREATE INDEX users_unapproved ON users (updated_at) WHERE status = 'PENDING';
CREATE INDEX users_with_roles ON users (id) WHERE roles <> '[]';

-- A code is tried from where it was asked for, and a little from elsewhere, so
-- that a stranger's guesses do not use it up.
ALTER TABLE account_codes ADD COLUMN asked_from TEXT NOT NULL DEFAULT '';        -- address as the limits count it
ALTER TABLE account_codes ADD COLUMN tries_elsewhere BIGINT NOT NULL DEFAULT 0;
