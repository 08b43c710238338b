-- name: certificateByID :one
SELECT sqlc.embed(c), m.chain_pem, m.csr
FROM certificates c JOIN certificate_materials m ON m.cert_id = c.id
WHERE c.user_id = $1 AND c.id = $2;

-- LIMIT with a bare parameter makes SQLite compile the statement anew for every value; the casts prevent it.
-- name: certificatesOf :many
SELECT * FROM certificates WHERE user_id = @user_id ORDER BY id DESC LIMIT CAST(@max AS BIGINT) OFFSET CAST(@skip AS BIGINT);

-- name: countCertificates :one
SELECT COUNT(*) FROM certificates WHERE user_id = $1;

-- The owner of an account owns its certificates, so that the index on acct_id serves both.
-- name: certificatesOfAccount :many
SELECT * FROM certificates WHERE acct_id = @acct_id ORDER BY id DESC LIMIT CAST(@max AS BIGINT) OFFSET CAST(@skip AS BIGINT);

-- name: countCertificatesOfAccount :one
SELECT COUNT(*) FROM certificates WHERE acct_id = $1;

-- name: certificatesOfDevice :many
SELECT c.* FROM certificate_assignments a JOIN certificates c ON c.id = a.cert_id
WHERE a.device_id = @device_id ORDER BY a.cert_id DESC LIMIT CAST(@max AS BIGINT) OFFSET CAST(@skip AS BIGINT);

-- name: countCertificatesOfDevice :one
SELECT COUNT(*) FROM certificate_assignments WHERE device_id = $1;

-- The users after one of them who have something due, and the last one that was looked at. Each user costs two steps in
-- certificates_turns, however much is due.
-- name: usersDue :many
WITH RECURSIVE turn (user_id, steps) AS (
    SELECT (SELECT c.user_id FROM certificates c WHERE c.next_renewal_at > 0 AND c.user_id > CAST(@after AS BIGINT) ORDER BY c.user_id LIMIT 1), CAST(1 AS BIGINT)
    UNION ALL
    SELECT (SELECT c.user_id FROM certificates c WHERE c.next_renewal_at > 0 AND c.user_id > t.user_id ORDER BY c.user_id LIMIT 1), t.steps + 1
    FROM turn t WHERE t.user_id IS NOT NULL AND t.steps < CAST(@steps AS BIGINT)
)
SELECT CAST(turn.user_id AS BIGINT) AS user_id,
    EXISTS (SELECT 1 FROM certificates d WHERE d.user_id = turn.user_id AND d.next_renewal_at > 0 AND d.next_renewal_at <= CAST(@now AS BIGINT)) AS due
FROM turn WHERE turn.user_id IS NOT NULL AND (turn.steps = CAST(@steps AS BIGINT) OR
    EXISTS (SELECT 1 FROM certificates d WHERE d.user_id = turn.user_id AND d.next_renewal_at > 0 AND d.next_renewal_at <= CAST(@now AS BIGINT)))
LIMIT CAST(@max AS BIGINT);

-- name: certificatesDue :many
SELECT * FROM certificates WHERE user_id = @user_id AND next_renewal_at > 0 AND next_renewal_at <= @now
ORDER BY next_renewal_at, id LIMIT CAST(@max AS BIGINT);

-- name: insertCertificate :one
INSERT INTO certificates (user_id, acct_id, public_id, origin, domain_name, sans, organization, organizational_unit, country, state,
    locality, key_algorithm, policy, server_decrypt_export, challenge, auto_renew, renew_before_days, renewal_window, verified,
    next_policy, serial_number, fingerprint_sha256, issuer, self_signed, not_before, not_after, revoked_at, revoke_reason,
    next_renewal_at, last_issue_id, last_issue_status, last_issue_at, created_at, updated_at)
VALUES (@user_id, @acct_id, @public_id, @origin, @domain_name, @sans, @organization, @organizational_unit, @country, @state,
    @locality, @key_algorithm, @policy, @server_decrypt_export, @challenge, @auto_renew, @renew_before_days, @renewal_window, FALSE,
    '', '', '', '', FALSE, 0, 0, 0, 0,
    0, 0, '', 0, @now, @now)
RETURNING id;

-- An update that changes nothing locks the row on both engines.
-- name: lockCertificate :one
UPDATE certificates SET updated_at = updated_at WHERE id = $1 RETURNING *;

-- name: saveCertificate :exec
UPDATE certificates SET acct_id = @acct_id, domain_name = @domain_name, sans = @sans, organization = @organization,
    organizational_unit = @organizational_unit, country = @country, state = @state, locality = @locality, key_algorithm = @key_algorithm,
    policy = @policy, server_decrypt_export = @server_decrypt_export, challenge = @challenge, auto_renew = @auto_renew,
    renew_before_days = @renew_before_days, renewal_window = @renewal_window, verified = @verified, next_policy = @next_policy,
    serial_number = @serial_number, fingerprint_sha256 = @fingerprint_sha256, issuer = @issuer, self_signed = @self_signed,
    not_before = @not_before, not_after = @not_after, revoked_at = @revoked_at, revoke_reason = @revoke_reason,
    next_renewal_at = @next_renewal_at, renewal_blocked = @renewal_blocked, updated_at = @updated_at
WHERE id = @id;

-- name: setLastIssue :exec
UPDATE certificates SET last_issue_id = @issue_id, last_issue_status = @status, last_issue_at = @at WHERE id = @id AND last_issue_id <= @issue_id;

-- name: postponeRenewal :exec
UPDATE certificates SET next_renewal_at = @at WHERE id = @id AND next_renewal_at > 0;

-- What its owner has planned anew stays so.
-- name: putOffRenewal :exec
UPDATE certificates SET next_renewal_at = @at WHERE id = @id AND next_renewal_at = @before;

-- name: blockRenewal :execrows
UPDATE certificates SET next_renewal_at = 0, renewal_blocked = @reason WHERE id = @id AND next_renewal_at = @before;

-- name: strayRenewals :many
SELECT * FROM certificates WHERE next_renewal_at > 0 AND next_renewal_at > @latest AND next_renewal_at > not_after
ORDER BY next_renewal_at, id LIMIT CAST(@max AS BIGINT);

-- name: deleteCertificate :exec
DELETE FROM certificates WHERE id = $1;

-- name: insertMaterials :exec
INSERT INTO certificate_materials (cert_id, chain_pem, csr, key_version) VALUES ($1, '', $2, 0);

-- name: materialsOf :one
SELECT * FROM certificate_materials WHERE cert_id = $1;

-- What a user's certificates, keys and signing requests take, in bytes.
-- name: storedBytes :one
SELECT CAST(COALESCE(SUM(octet_length(m.chain_pem) + COALESCE(octet_length(m.csr), 0) + COALESCE(octet_length(m.key_ciphertext), 0)), 0) AS BIGINT)
FROM certificates c JOIN certificate_materials m ON m.cert_id = c.id WHERE c.user_id = $1;

-- name: setChain :exec
UPDATE certificate_materials SET chain_pem = $2 WHERE cert_id = $1;

-- name: setKey :one
UPDATE certificate_materials SET key_ciphertext = $2, key_nonce = $3, key_tag = $4, data_key = $5, key_version = key_version + 1
WHERE cert_id = $1 RETURNING key_version;

-- name: dropServerWrap :exec
UPDATE certificate_materials SET data_key = NULL WHERE cert_id = $1;

-- name: assign :execrows
INSERT INTO certificate_assignments (device_id, cert_id, created_at) VALUES ($1, $2, $3) ON CONFLICT (device_id, cert_id) DO NOTHING;

-- name: unassign :execrows
DELETE FROM certificate_assignments WHERE device_id = $1 AND cert_id = $2;

-- The keys are those that the devices area holds; nothing is written there.
-- name: assignedDevices :many
SELECT a.device_id, d.public_key, w.key_fp
FROM certificate_assignments a JOIN devices d ON d.id = a.device_id JOIN certificate_materials m ON m.cert_id = a.cert_id
    LEFT JOIN certificate_wraps w ON w.device_id = a.device_id AND w.cert_id = a.cert_id AND w.key_version = m.key_version
WHERE a.cert_id = $1 ORDER BY a.device_id;

-- name: assignedTo :many
SELECT cert_id FROM certificate_assignments WHERE device_id = $1 ORDER BY cert_id;

-- name: putWrap :exec
INSERT INTO certificate_wraps (device_id, cert_id, key_version, sealed_box, key_fp, created_at)
VALUES (@device_id, @cert_id, @key_version, @sealed_box, @key_fp, @now)
ON CONFLICT (device_id, cert_id) DO UPDATE SET key_version = excluded.key_version, sealed_box = excluded.sealed_box,
    key_fp = excluded.key_fp, created_at = excluded.created_at;

-- The assignments lead to the rows by their primary key.
-- name: dropWraps :exec
DELETE FROM certificate_wraps WHERE certificate_wraps.cert_id = $1 AND certificate_wraps.device_id IN (SELECT a.device_id FROM certificate_assignments a WHERE a.cert_id = $1);

-- name: dropDeviceWraps :exec
DELETE FROM certificate_wraps WHERE device_id = $1;

-- What a device may fetch: only assigned certificates, with the wrap of the present key if there is one.
-- name: deployable :one
SELECT sqlc.embed(c), sqlc.embed(m), w.sealed_box, w.key_fp
FROM certificate_assignments a JOIN certificates c ON c.id = a.cert_id JOIN certificate_materials m ON m.cert_id = c.id
    LEFT JOIN certificate_wraps w ON w.device_id = a.device_id AND w.cert_id = a.cert_id AND w.key_version = m.key_version
WHERE a.device_id = @device_id AND a.cert_id = @cert_id AND c.user_id = @user_id;


-- Re-issues of one certificate are @every apart; one that is planned for other devices takes these along.
-- name: planReissue :exec
INSERT INTO certificate_reissues (cert_id, due_at, last_at) VALUES (@cert_id, @due_at, 0)
ON CONFLICT (cert_id) DO UPDATE SET due_at = excluded.due_at
WHERE certificate_reissues.due_at = certificate_reissues.last_at + CAST(@every AS BIGINT) AND certificate_reissues.due_at < excluded.due_at;

-- Users take turns, each with its longest overdue one.
-- name: reissuesDue :many
SELECT c.* FROM (SELECT r.cert_id, r.due_at, ROW_NUMBER() OVER (PARTITION BY o.user_id ORDER BY r.due_at, r.cert_id) AS turn
    FROM (SELECT cert_id, due_at FROM certificate_reissues WHERE due_at <= @now ORDER BY due_at LIMIT 5000) r JOIN certificates o ON o.id = r.cert_id) d
JOIN certificates c ON c.id = d.cert_id ORDER BY d.turn, d.due_at, d.cert_id LIMIT CAST(@max AS BIGINT);

-- name: takeReissue :execrows
UPDATE certificate_reissues SET due_at = @next, last_at = @now WHERE cert_id = @cert_id AND due_at <= @now;

-- name: dropReissue :exec
DELETE FROM certificate_reissues WHERE cert_id = $1;

-- name: postponeReissue :exec
UPDATE certificate_reissues SET due_at = @at WHERE cert_id = @cert_id;

-- name: hastenReissues :exec
UPDATE certificate_reissues SET due_at = @at WHERE due_at > @latest;
