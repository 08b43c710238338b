-- +goose Up
CREATE TABLE users (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    email                TEXT   NOT NULL,        -- lower case, '': none (a user who signs in elsewhere)
    name                 TEXT   NOT NULL,        -- '': none
    country_of_residence TEXT   NOT NULL,        -- ISO 3166 two letters, '': not told
    password             TEXT   NOT NULL,        -- PHC string of argon2id, '': no password
    status               TEXT   NOT NULL,        -- INACTIVE, ACTIVE, DISABLED
    roles                TEXT   NOT NULL,        -- JSON array of strings
    created_at           INTEGER NOT NULL,        -- Unix ms
    updated_at           INTEGER NOT NULL         -- Unix ms
);
CREATE UNIQUE INDEX users_email ON users (email) WHERE email <> '';
CREATE INDEX users_unconfirmed ON users (updated_at) WHERE status = 'INACTIVE';
CREATE UNIQUE INDEX users_name ON users (lower(name)) WHERE name <> '';

CREATE TABLE sessions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_hash BLOB  NOT NULL UNIQUE, -- SHA-256 of the cookie's value
    amr        TEXT   NOT NULL,        -- JSON array of RFC 8176 names
    acr        TEXT   NOT NULL,        -- aal1, aal2
    auth_time  INTEGER NOT NULL,        -- last sign-in or step-up, Unix ms
    ip         TEXT   NOT NULL,
    user_agent TEXT   NOT NULL,
    created_at INTEGER NOT NULL,        -- Unix ms
    seen_at    INTEGER NOT NULL,        -- last time expires_at was moved, Unix ms
    expires_at INTEGER NOT NULL         -- Unix ms
);
CREATE INDEX sessions_user ON sessions (user_id, id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE rate_limits (
    bucket  TEXT   NOT NULL PRIMARY KEY, -- what is counted, for example "login.address 192.0.2.1"
    hits    INTEGER NOT NULL,
    ends_at INTEGER NOT NULL              -- when the window ends, Unix ms
);
CREATE INDEX rate_limits_end ON rate_limits (ends_at);

-- What POST /auth/general was asked and answers the same for every address: a
-- job finds out in the background whether there is a user.
CREATE TABLE account_requests (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    kind                 TEXT   NOT NULL, -- register, reset
    email                TEXT   NOT NULL, -- lower case
    name                 TEXT   NOT NULL,
    country_of_residence TEXT   NOT NULL,
    password             TEXT   NOT NULL, -- PHC string of argon2id, '' for a reset
    ip                   TEXT   NOT NULL,
    created_at           INTEGER NOT NULL  -- Unix ms
);

-- Codes that were sent by mail. An address without a user has rows as well, so
-- that a wrong code costs the same; theirs were told to nobody.
CREATE TABLE account_codes (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    email                TEXT   NOT NULL, -- lower case
    purpose              TEXT   NOT NULL, -- activate, reset
    code_hash            BLOB  NOT NULL, -- HMAC-SHA-256 under the key of code_keys
    tries                INTEGER NOT NULL,
    name                 TEXT   NOT NULL, -- of the registration that the code belongs to
    country_of_residence TEXT   NOT NULL,
    password             TEXT   NOT NULL,
    created_at           INTEGER NOT NULL, -- Unix ms
    expires_at           INTEGER NOT NULL  -- Unix ms
);
CREATE INDEX account_codes_email ON account_codes (email, purpose);
CREATE INDEX account_codes_expiry ON account_codes (expires_at);

CREATE TABLE code_keys (
    id         INTEGER PRIMARY KEY,
    key_sealed BLOB  NOT NULL,
    created_at INTEGER NOT NULL -- Unix ms
);

-- Links with which the first administrator is made.
CREATE TABLE setup_tokens (
    token_hash BLOB  NOT NULL PRIMARY KEY, -- SHA-256
    created_at INTEGER NOT NULL              -- Unix ms
);
