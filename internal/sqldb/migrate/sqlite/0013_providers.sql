-- +goose Up
CREATE TABLE provider_bindings (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id      INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    provider     TEXT   NOT NULL, -- code in the settings: github, weixin, solana, or the name of an OpenID Connect provider
    issuer       TEXT   NOT NULL, -- who gives the subjects out; the code may be set to another provider one day
    subject      TEXT   NOT NULL, -- the user's id there, never a name or an address
    name         TEXT   NOT NULL, -- what the user is called there, for people
    created_at   INTEGER NOT NULL, -- Unix ms
    last_used_at INTEGER NOT NULL, -- Unix ms, 0: never
    UNIQUE (issuer, subject),
    UNIQUE (user_id, provider)
);
CREATE INDEX provider_bindings_user ON provider_bindings (user_id, id);

CREATE TABLE provider_attempts (
    hash       BLOB  PRIMARY KEY, -- SHA-256 of the state, or of the nonce of a wallet's message
    provider   TEXT   NOT NULL,
    purpose    TEXT   NOT NULL,    -- sign_in, bind
    browser    BLOB  NOT NULL,    -- SHA-256 of the cookie of the browser that began
    session_id INTEGER NOT NULL,    -- that wants to bind, 0: sign_in
    return_to  TEXT   NOT NULL,    -- path to go to afterwards
    expires_at INTEGER NOT NULL     -- Unix ms
);
CREATE INDEX provider_attempts_expiry ON provider_attempts (expires_at);
