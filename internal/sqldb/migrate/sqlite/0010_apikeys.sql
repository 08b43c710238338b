-- +goose Up
CREATE TABLE api_keys (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id            INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name               TEXT   NOT NULL,
    prefix             TEXT   NOT NULL,        -- the token's first 8 characters
    token_hash         BLOB  NOT NULL UNIQUE, -- SHA-256 of the token
    permissions        TEXT   NOT NULL,        -- JSON array of {obtype, obid, actions}
    version            INTEGER NOT NULL,        -- grows with each change of permissions
    expires_in_seconds INTEGER NOT NULL,        -- as asked for at creation
    created_at         INTEGER NOT NULL,        -- Unix ms
    updated_at         INTEGER NOT NULL,        -- Unix ms
    expires_at         INTEGER NOT NULL,        -- Unix ms
    last_used_at       INTEGER NOT NULL         -- Unix ms, written a minute late at the most; 0: never
);
CREATE INDEX api_keys_user ON api_keys (user_id, id);
-- What was revoked is recognised when somebody still uses it.
CREATE TABLE revoked_api_keys (
    token_hash BLOB    NOT NULL PRIMARY KEY, -- SHA-256 of the token
    key_id     INTEGER NOT NULL,
    user_id    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL              -- Unix ms, as the key had it
);
CREATE INDEX revoked_api_keys_expiry ON revoked_api_keys (expires_at);
