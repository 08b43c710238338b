-- +goose Up
CREATE TABLE certificates (
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id               INTEGER  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    acct_id               INTEGER  REFERENCES acme_accounts (id), -- null: none; a used account cannot be deleted
    public_id             TEXT    NOT NULL,
    origin                TEXT    NOT NULL, -- create, import, csr
    domain_name           TEXT    NOT NULL, -- normalised, as sans
    sans                  TEXT    NOT NULL, -- JSON array of strings
    organization          TEXT    NOT NULL,
    organizational_unit   TEXT    NOT NULL,
    country               TEXT    NOT NULL,
    state                 TEXT    NOT NULL,
    locality              TEXT    NOT NULL,
    key_algorithm         TEXT    NOT NULL,
    policy                TEXT    NOT NULL, -- HYBRID, MASTER_ONLY, DEVICE_REQUIRED
    next_policy           TEXT    NOT NULL, -- of the next private key, '': the same
    server_decrypt_export BOOLEAN NOT NULL,
    challenge             TEXT    NOT NULL,
    auto_renew            BOOLEAN NOT NULL,
    renew_before_days     INTEGER  NOT NULL, -- 0: a third of the lifetime
    renewal_window        TEXT    NOT NULL, -- JSON object, '': none
    verified              BOOLEAN NOT NULL,
    serial_number         TEXT    NOT NULL, -- this and the next five describe the present leaf
    fingerprint_sha256    TEXT    NOT NULL,
    issuer                TEXT    NOT NULL,
    self_signed           BOOLEAN NOT NULL,
    not_before            INTEGER  NOT NULL, -- Unix ms, as all times here; 0: never issued
    not_after             INTEGER  NOT NULL,
    revoked_at            INTEGER  NOT NULL, -- of the present leaf, 0: not
    revoke_reason         INTEGER  NOT NULL, -- RFC 5280 5.3.1
    next_renewal_at       INTEGER  NOT NULL, -- 0: none
    last_issue_id         INTEGER  NOT NULL, -- 0: none
    last_issue_status     TEXT    NOT NULL,
    last_issue_at         INTEGER  NOT NULL,
    created_at            INTEGER  NOT NULL,
    updated_at            INTEGER  NOT NULL
);
CREATE INDEX certificates_user ON certificates (user_id, id);
CREATE INDEX certificates_account ON certificates (acct_id, id);
CREATE INDEX certificates_due ON certificates (next_renewal_at, id) WHERE next_renewal_at > 0;

-- What is long or secret, apart so that lists do not read it; one row per certificate.
CREATE TABLE certificate_materials (
    cert_id        INTEGER PRIMARY KEY REFERENCES certificates (id) ON DELETE CASCADE,
    chain_pem      TEXT   NOT NULL, -- leaf first, then issuers; '': never issued
    csr            BLOB,           -- DER, of origin csr
    key_version    INTEGER NOT NULL, -- grows with each private key, 0: there never was one
    key_ciphertext BLOB,           -- AES-256-GCM of the PKCS#8 key; null: no key is stored
    key_nonce      BLOB,
    key_tag        BLOB,
    data_key       BLOB            -- sealed for the server; null: only devices can open the key
);

CREATE TABLE certificate_assignments (
    device_id  INTEGER NOT NULL REFERENCES devices (id) ON DELETE CASCADE,
    cert_id    INTEGER NOT NULL REFERENCES certificates (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (device_id, cert_id)
);
CREATE INDEX certificate_assignments_cert ON certificate_assignments (cert_id, device_id);

-- Data keys sealed to devices.
CREATE TABLE certificate_wraps (
    device_id   INTEGER NOT NULL,
    cert_id     INTEGER NOT NULL,
    key_version INTEGER NOT NULL, -- of the private key that the data key opens
    sealed_box  BLOB  NOT NULL, -- libsodium's crypto_box_seal, 80 bytes
    key_fp      BLOB  NOT NULL, -- BLAKE2b-256 of the device's public key
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (device_id, cert_id),
    FOREIGN KEY (device_id, cert_id) REFERENCES certificate_assignments (device_id, cert_id) ON DELETE CASCADE
);
