-- +goose Up
ALTER TABLE users ADD COLUMN disabled_at INTEGER NOT NULL DEFAULT 0; -- Unix ms, 0: not disabled
ALTER TABLE users ADD COLUMN renewals_held_at INTEGER NOT NULL DEFAULT 0; -- when the renewals of a disabled user were stopped, Unix ms, 0: they go on
ALTER TABLE users ADD COLUMN invited_at INTEGER NOT NULL DEFAULT 0; -- by an administrator, Unix ms, 0: not
UPDATE users SET disabled_at = updated_at WHERE status = 'DISABLED';
-- What administrators list and search by; a name and an address by their beginning.
CREATE INDEX users_status ON users (status, id);
CREATE INDEX users_search_email ON users (email) WHERE email <> '';
CREATE INDEX users_search_name ON users (lower(name)) WHERE name <> '';
CREATE INDEX users_disabled ON users (disabled_at) WHERE disabled_at > 0;
CREATE INDEX users_held ON users (id) WHERE renewals_held_at > 0;
-- Users whom an administrator wants deleted, and how far that has come.
CREATE TABLE user_deletions (
    user_id    INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    asked_at   INTEGER NOT NULL, -- Unix ms
    asked_by   INTEGER NOT NULL, -- the administrator's id
    delete_at  INTEGER NOT NULL, -- when it begins, Unix ms
    began_at   INTEGER NOT NULL, -- Unix ms; 0: not yet, and it can be cancelled
    due_at     INTEGER NOT NULL, -- when the next step is due, Unix ms
    attempts   INTEGER NOT NULL, -- of the step that fails
    last_error TEXT NOT NULL
);
CREATE INDEX user_deletions_due ON user_deletions (due_at);
