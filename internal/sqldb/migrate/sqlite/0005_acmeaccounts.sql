-- +goose Up
CREATE TABLE acme_accounts (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id            INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name               TEXT   NOT NULL,
    email              TEXT   NOT NULL,
    provider           TEXT   NOT NULL,
    directory_url      TEXT   NOT NULL,
    ca_bundle_pem      TEXT   NOT NULL,
    ca_id              INTEGER NOT NULL, -- 0: none
    eab_kid            TEXT   NOT NULL,
    eab_hmac_key       BLOB,           -- sealed
    account_key        BLOB,           -- sealed PKCS#8; null only inside the inserting transaction
    account_url        TEXT   NOT NULL, -- empty: not registered
    leaf_key_algorithm TEXT   NOT NULL,
    leaf_rsa_bits      INTEGER NOT NULL,
    leaf_ec_curve      TEXT   NOT NULL,
    cert_valid_seconds INTEGER NOT NULL,
    profile            TEXT   NOT NULL,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL
);
CREATE INDEX acme_accounts_user ON acme_accounts (user_id, id);
