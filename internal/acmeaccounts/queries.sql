-- name: accountByID :one
SELECT * FROM acme_accounts WHERE user_id = $1 AND id = $2;

-- LIMIT and OFFSET with bare parameters are 32 bits wide on the way and compiled anew for every value in SQLite.
-- name: accountsOf :many
SELECT * FROM acme_accounts WHERE user_id = @user_id ORDER BY id DESC LIMIT CAST(@max AS BIGINT) OFFSET CAST(@skip AS BIGINT);

-- name: countAccounts :one
SELECT COUNT(*) FROM acme_accounts WHERE user_id = $1;

-- name: insertAccount :one
INSERT INTO acme_accounts (user_id, name, email, provider, directory_url, ca_bundle_pem, ca_id, eab_kid, account_url,
    leaf_key_algorithm, leaf_rsa_bits, leaf_ec_curve, cert_valid_seconds, profile, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '', $9, $10, $11, $12, $13, $14, $14)
RETURNING id;

-- name: updateAccount :exec
UPDATE acme_accounts SET name = $2, email = $3, provider = $4, directory_url = $5, ca_bundle_pem = $6, ca_id = $7,
    eab_kid = $8, account_url = $9, leaf_key_algorithm = $10, leaf_rsa_bits = $11, leaf_ec_curve = $12,
    cert_valid_seconds = $13, profile = $14, updated_at = $15
WHERE id = $1;

-- name: setSecrets :exec
UPDATE acme_accounts SET account_key = $2, eab_hmac_key = $3 WHERE id = $1;

-- name: setAccountURL :exec
UPDATE acme_accounts SET account_url = $2, updated_at = $3 WHERE id = $1 AND directory_url = $4;

-- name: deleteAccount :execrows
DELETE FROM acme_accounts WHERE user_id = $1 AND id = $2;
