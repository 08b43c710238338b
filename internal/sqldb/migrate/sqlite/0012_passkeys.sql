-- +goose Up
CREATE TABLE passkeys (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id       INTEGER  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    credential_id BLOB   NOT NULL UNIQUE, -- chosen by the authenticator, at most 1023 bytes
    public_key    BLOB   NOT NULL,        -- COSE_Key (RFC 9052)
    algorithm     INTEGER  NOT NULL,        -- COSE: -7 ES256, -8 EdDSA, -257 RS256
    name          TEXT    NOT NULL,
    aaguid        TEXT    NOT NULL,        -- model of the authenticator as a UUID, all zero: not told
    transports    TEXT    NOT NULL,        -- JSON array of hints for browsers
    flags         INTEGER  NOT NULL,        -- of the authenticator data that came last
    sign_count    INTEGER  NOT NULL,        -- the highest that was seen, 0: the authenticator does not count
    clone_warning BOOLEAN NOT NULL,        -- the counter went back once
    created_at    INTEGER  NOT NULL,        -- Unix ms
    last_used_at  INTEGER  NOT NULL         -- Unix ms, 0: never
);
CREATE INDEX passkeys_user ON passkeys (user_id, id);

CREATE TABLE passkey_handles (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    handle  BLOB  NOT NULL UNIQUE -- 64 random bytes: what authenticators know the user by
);

CREATE TABLE passkey_challenges (
    hash       BLOB  PRIMARY KEY, -- SHA-256 of the challenge
    purpose    TEXT   NOT NULL,    -- register, login, step_up
    bound_to   TEXT   NOT NULL,    -- "session 7", or "browser " and the SHA-256 of its cookie
    expires_at INTEGER NOT NULL     -- Unix ms
);
CREATE INDEX passkey_challenges_expiry ON passkey_challenges (expires_at);
