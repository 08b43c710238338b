-- +goose Up
CREATE TABLE devices (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id       INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    public_id     TEXT   NOT NULL, -- device_public_id in lower case
    public_key    BLOB  NOT NULL, -- dev_pk: X25519, 32 bytes
    status        TEXT   NOT NULL, -- ACTIVE; anything else is refused
    session_no    INTEGER NOT NULL, -- token family that is alive; grows with each registration and each family that is ended
    name          TEXT   NOT NULL,
    platform      TEXT   NOT NULL,
    model         TEXT   NOT NULL,
    app_version   TEXT   NOT NULL,
    agent         TEXT   NOT NULL, -- as notified
    agent_version TEXT   NOT NULL,
    ip            TEXT   NOT NULL, -- as the device says
    user_agent    TEXT   NOT NULL,
    push_token    BLOB,           -- sealed
    created_at    INTEGER NOT NULL, -- Unix ms, as all times here
    updated_at    INTEGER NOT NULL,
    last_seen_at  INTEGER NOT NULL  -- to about ten minutes
);
CREATE UNIQUE INDEX devices_public_id ON devices (user_id, public_id);
CREATE INDEX devices_user ON devices (user_id, id);

-- One row per refresh token; a family is (device_id, session_no).
CREATE TABLE device_refresh_tokens (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    device_id      INTEGER NOT NULL REFERENCES devices (id) ON DELETE CASCADE,
    session_no     INTEGER NOT NULL,
    lookup         TEXT   NOT NULL, -- the part of the token before the dot
    token_hash     BLOB  NOT NULL, -- SHA-256 of the whole token
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    rotated_at     INTEGER,          -- null: the newest of its family
    request_hash   BLOB,           -- SHA-256 of the request_id it was rotated with
    predecessor_id INTEGER           -- the token it was given for; null after a registration; may be swept already
);
CREATE UNIQUE INDEX device_refresh_tokens_lookup ON device_refresh_tokens (lookup);
CREATE INDEX device_refresh_tokens_device ON device_refresh_tokens (device_id, rotated_at);
CREATE INDEX device_refresh_tokens_expires ON device_refresh_tokens (expires_at);

-- Device login (RFC 8628).
CREATE TABLE device_logins (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    device_code_hash BLOB  NOT NULL, -- SHA-256
    user_code_hash   BLOB  NOT NULL, -- SHA-256 of the upper case form
    scopes           TEXT   NOT NULL, -- JSON array of strings
    name             TEXT   NOT NULL, -- as the device says
    platform         TEXT   NOT NULL, -- as the device says
    client_ip        TEXT   NOT NULL, -- where it asked from
    user_agent       TEXT   NOT NULL,
    interval_s       INTEGER NOT NULL,
    status           TEXT   NOT NULL, -- PENDING, APPROVED, DENIED
    user_id          INTEGER REFERENCES users (id) ON DELETE CASCADE, -- who decided
    polled_at        INTEGER NOT NULL, -- last poll that was not too early
    created_at       INTEGER NOT NULL,
    expires_at       INTEGER NOT NULL
);
CREATE UNIQUE INDEX device_logins_device_code ON device_logins (device_code_hash);
CREATE UNIQUE INDEX device_logins_user_code ON device_logins (user_code_hash);
CREATE INDEX device_logins_user ON device_logins (user_id);
CREATE INDEX device_logins_expires ON device_logins (expires_at);

-- Single-use codes with which a device registers for the user who approved it.
CREATE TABLE registration_codes (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id        INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    login_id       INTEGER NOT NULL REFERENCES device_logins (id) ON DELETE CASCADE,
    code_hash      BLOB  NOT NULL, -- SHA-256
    code_sealed    BLOB,           -- to answer the same code again; null once used
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    used_at        INTEGER,
    used_device_id INTEGER REFERENCES devices (id) ON DELETE CASCADE,
    used_key       BLOB            -- the dev_pk it was used with
);
CREATE UNIQUE INDEX registration_codes_hash ON registration_codes (code_hash);
CREATE UNIQUE INDEX registration_codes_login ON registration_codes (login_id);
CREATE INDEX registration_codes_user ON registration_codes (user_id);
CREATE INDEX registration_codes_device ON registration_codes (used_device_id);
CREATE INDEX registration_codes_expires ON registration_codes (expires_at);

-- Keys that sign device access tokens; the newest signs, all verify.
CREATE TABLE device_signing_keys (
    id         INTEGER PRIMARY KEY, -- the token's kid; 1, 2, …
    key_sealed BLOB  NOT NULL,    -- HS256, 32 bytes
    created_at INTEGER NOT NULL
);
