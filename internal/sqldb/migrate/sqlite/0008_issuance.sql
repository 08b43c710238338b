-- +goose Up
-- One row per attempt to issue a certificate. Times are Unix ms, 0: not yet.
CREATE TABLE issuances (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id          INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    cert_id          INTEGER NOT NULL REFERENCES certificates (id) ON DELETE CASCADE,
    attempt_number   INTEGER NOT NULL, -- 1 is the certificate's first
    status           TEXT   NOT NULL, -- PENDING, PROCESSING, SUCCESS, FAILED, CANCELLED
    cause            TEXT   NOT NULL, -- manual, renewal, api_key, worker
    acct_id          INTEGER NOT NULL, -- the ACME account, which may be gone
    challenge        TEXT   NOT NULL,
    names            TEXT   NOT NULL, -- JSON array, as ordered
    name_set         BLOB  NOT NULL, -- SHA-256 of the sorted names
    validity_seconds INTEGER NOT NULL, -- wished, 0: the CA's choice
    replaces         TEXT   NOT NULL, -- renewal id of the predecessor (RFC 9773), '': none
    order_url        TEXT   NOT NULL, -- '': none recorded
    orders           INTEGER NOT NULL, -- how many were placed
    registrations    INTEGER NOT NULL, -- how often the account was lost and made anew
    csr              BLOB,           -- DER; the same at every finalize
    private_key      BLOB,           -- sealed PKCS#8 of the CSR; null: no CSR yet, or the owner's, or finished
    error_message    TEXT   NOT NULL,
    step             TEXT   NOT NULL, -- what is to be done next
    step_since       INTEGER NOT NULL, -- since when
    tries            INTEGER NOT NULL, -- failures since the last progress
    version          INTEGER NOT NULL, -- grows with every save
    holder           TEXT   NOT NULL, -- the process that saved last
    lease_until      INTEGER NOT NULL, -- until then the holder alone works on it; 0: nobody does
    due_at           INTEGER NOT NULL, -- after it somebody should work on it
    started_at       INTEGER NOT NULL,
    completed_at     INTEGER NOT NULL
);
-- Fifty triggers make one row.
CREATE UNIQUE INDEX issuances_open ON issuances (cert_id) WHERE status IN ('PENDING', 'PROCESSING');
CREATE UNIQUE INDEX issuances_certificate ON issuances (cert_id, attempt_number);
CREATE INDEX issuances_due ON issuances (due_at) WHERE status IN ('PENDING', 'PROCESSING');
CREATE INDEX issuances_user ON issuances (user_id); -- for the cascade
CREATE INDEX issuances_unordered ON issuances (user_id, name_set) WHERE status IN ('PENDING', 'PROCESSING') AND order_url = '';

CREATE TABLE issuance_log (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    issuance_id INTEGER NOT NULL REFERENCES issuances (id) ON DELETE CASCADE,
    at          INTEGER NOT NULL,
    step        TEXT   NOT NULL,
    message     TEXT   NOT NULL
);
CREATE INDEX issuance_log_issuance ON issuance_log (issuance_id, id);

-- What public CAs count. It outlives the certificates, so that deleting one gives no new order.
CREATE TABLE issuance_orders (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id  INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name_set BLOB  NOT NULL,
    at       INTEGER NOT NULL
);
CREATE INDEX issuance_orders_names ON issuance_orders (user_id, name_set, at);
CREATE INDEX issuance_orders_at ON issuance_orders (at);

-- HTTP-01 answers (RFC 8555 section 8.3) that any node gives.
CREATE TABLE http01_challenges (
    token             TEXT   NOT NULL,
    issuance_id       INTEGER NOT NULL REFERENCES issuances (id) ON DELETE CASCADE,
    name              TEXT   NOT NULL,
    key_authorization TEXT   NOT NULL,
    challenge_url     TEXT   NOT NULL,
    authorization_url TEXT   NOT NULL,
    PRIMARY KEY (token, issuance_id)
);
CREATE INDEX http01_challenges_issuance ON http01_challenges (issuance_id);
