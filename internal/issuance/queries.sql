-- name: insertIssuance :one
INSERT INTO issuances (user_id, cert_id, attempt_number, status, cause, acct_id, challenge, names, name_set, validity_seconds, replaces,
    order_url, orders, registrations, error_message, step, step_since, tries, version, holder, lease_until, due_at, started_at, completed_at)
VALUES (@user_id, @cert_id, (SELECT COALESCE(MAX(i.attempt_number), 0) + 1 FROM issuances i WHERE i.cert_id = @cert_id), 'PENDING',
    @cause, @acct_id, @challenge, @names, @name_set, @validity_seconds, @replaces,
    '', 0, 0, '', @step, @now, 0, 0, '', 0, @now, @now, 0)
RETURNING *;

-- The log of an attempt goes with it.
-- name: forgetAttempts :exec
DELETE FROM issuances WHERE cert_id = @cert_id AND attempt_number <= @last AND status NOT IN ('PENDING', 'PROCESSING');

-- name: issuanceByID :one
SELECT * FROM issuances WHERE id = $1;

-- name: issuanceOf :one
SELECT * FROM issuances WHERE id = @id AND cert_id = @cert_id AND user_id = @user_id;

-- name: openIssuance :one
SELECT * FROM issuances WHERE cert_id = $1 AND status IN ('PENDING', 'PROCESSING');

-- name: issuancesOf :many
SELECT * FROM issuances WHERE cert_id = @cert_id ORDER BY attempt_number DESC LIMIT CAST(@max AS BIGINT) OFFSET CAST(@skip AS BIGINT);

-- name: countIssuances :one
SELECT COUNT(*) FROM issuances WHERE cert_id = $1;

-- The last attempts of a certificate, for the wait before the next renewal.
-- name: lastOutcomes :many
SELECT status, acct_id FROM issuances WHERE cert_id = @cert_id AND status IN ('SUCCESS', 'FAILED')
ORDER BY attempt_number DESC LIMIT CAST(@max AS BIGINT);

-- Only who knows the version may save, and only while the attempt is open.
-- name: saveIssuance :execrows
UPDATE issuances SET status = @status, names = @names, validity_seconds = @validity_seconds, replaces = @replaces,
    order_url = @order_url, orders = @orders, registrations = @registrations, error_message = @error_message, step = @step,
    step_since = @step_since, tries = @tries, version = version + 1, holder = @holder, lease_until = @lease_until,
    due_at = @due_at, completed_at = @completed_at
WHERE id = @id AND version = @version AND status IN ('PENDING', 'PROCESSING');

-- name: setKey :exec
UPDATE issuances SET csr = $2, private_key = $3, device_key = $4 WHERE id = $1;

-- name: dropKey :exec
UPDATE issuances SET private_key = NULL, device_key = NULL WHERE id = $1;

-- name: addLog :exec
INSERT INTO issuance_log (issuance_id, at, step, message) VALUES ($1, $2, $3, $4);

-- name: logOf :many
SELECT at, step, message FROM issuance_log WHERE issuance_id = $1 ORDER BY id;

-- name: addOrder :exec
INSERT INTO issuance_orders (user_id, name_set, at) VALUES ($1, $2, $3);

-- name: ordersSince :many
SELECT at FROM issuance_orders WHERE user_id = @user_id AND name_set = @name_set AND at > @since
ORDER BY at DESC LIMIT CAST(@max AS BIGINT);

-- name: countUnordered :one
SELECT COUNT(*) FROM issuances WHERE user_id = $1 AND name_set = $2 AND status IN ('PENDING', 'PROCESSING') AND order_url = '';

-- name: pruneOrders :execrows
DELETE FROM issuance_orders WHERE at <= $1;

-- name: overdue :many
SELECT id FROM issuances WHERE due_at < @before AND status IN ('PENDING', 'PROCESSING')
ORDER BY due_at LIMIT CAST(@max AS BIGINT);

-- name: putChallenge :exec
INSERT INTO http01_challenges (token, issuance_id, name, key_authorization, challenge_url, authorization_url, domain)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (token, issuance_id) DO UPDATE SET name = excluded.name, key_authorization = excluded.key_authorization,
    challenge_url = excluded.challenge_url, authorization_url = excluded.authorization_url, domain = excluded.domain;

-- name: challengesOf :many
SELECT * FROM http01_challenges WHERE issuance_id = $1 ORDER BY token;

-- name: dropChallenges :exec
DELETE FROM http01_challenges WHERE issuance_id = $1;

-- name: answers :many
SELECT c.issuance_id, c.name, c.key_authorization, i.user_id FROM http01_challenges c JOIN issuances i ON i.id = c.issuance_id
WHERE c.token = $1 ORDER BY c.issuance_id LIMIT 100;

-- What a clock that was wrong has put off.
-- name: hasten :exec
UPDATE issuances SET due_at = @now WHERE due_at > @latest AND status IN ('PENDING', 'PROCESSING');

-- name: answersIn :many
SELECT c.token, c.issuance_id, c.name, i.user_id FROM http01_challenges c JOIN issuances i ON i.id = c.issuance_id
WHERE c.domain = $1;

-- name: dropAnswer :exec
DELETE FROM http01_challenges WHERE token = $1 AND issuance_id = $2;

-- name: successes :many
SELECT id, user_id, acct_id, names FROM issuances WHERE id > @after AND status = 'SUCCESS' ORDER BY id LIMIT CAST(@max AS BIGINT);
