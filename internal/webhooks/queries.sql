-- name: insertWebhook :one
INSERT INTO service_webhooks (user_id, url, event_key, secret, scope_type, scope_cert_id, scope_domain, enabled,
    disabled_reason, version, failing_since, last_failure_at, drain_token, drain_due, lease_holder, lease_until, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '', 1, 0, 0, 0, 0, '', 0, $9, $9)
RETURNING id;

-- name: setSecret :exec
UPDATE service_webhooks SET secret = $2 WHERE id = $1;

-- name: updateWebhook :exec
UPDATE service_webhooks SET url = $2, event_key = $3, secret = $4, scope_type = $5, scope_cert_id = $6, scope_domain = $7,
    enabled = $8, disabled_reason = '', failing_since = 0, last_failure_at = 0, version = version + 1, updated_at = $9
WHERE id = $1;

-- name: deleteWebhook :execrows
DELETE FROM service_webhooks WHERE id = $1 AND user_id = $2;

-- name: countWebhooks :one
SELECT COUNT(*) FROM service_webhooks WHERE user_id = $1;

-- name: listWebhooks :many
SELECT w.id, w.user_id, w.url, w.event_key, w.scope_type, w.scope_cert_id, w.scope_domain, w.enabled, w.disabled_reason,
    w.created_at, w.updated_at, COALESCE(d.id, 0) AS delivery_id, COALESCE(d.event, '') AS event, COALESCE(d.cert_id, 0) AS cert_id,
    COALESCE(d.issue_history_id, 0) AS issue_history_id, COALESCE(d.status, '') AS status, COALESCE(d.attempts, 0) AS attempts,
    COALESCE(d.last_status_code, 0) AS last_status_code, COALESCE(d.last_error, '') AS last_error,
    COALESCE(d.last_attempt_at, 0) AS last_attempt_at, COALESCE(d.next_attempt_at, 0) AS next_attempt_at,
    COALESCE(d.created_at, 0) AS queued_at, COALESCE(d.finished_at, 0) AS finished_at
FROM service_webhooks w
LEFT JOIN webhook_deliveries d ON d.id = (SELECT MAX(m.id) FROM webhook_deliveries m WHERE m.webhook_id = w.id)
WHERE w.user_id = sqlc.arg(user_id)
ORDER BY w.id DESC LIMIT CAST(sqlc.arg(page_limit) AS BIGINT) OFFSET CAST(sqlc.arg(page_offset) AS BIGINT);

-- name: getWebhook :one
SELECT w.id, w.user_id, w.url, w.event_key, w.scope_type, w.scope_cert_id, w.scope_domain, w.enabled, w.disabled_reason,
    w.created_at, w.updated_at, COALESCE(d.id, 0) AS delivery_id, COALESCE(d.event, '') AS event, COALESCE(d.cert_id, 0) AS cert_id,
    COALESCE(d.issue_history_id, 0) AS issue_history_id, COALESCE(d.status, '') AS status, COALESCE(d.attempts, 0) AS attempts,
    COALESCE(d.last_status_code, 0) AS last_status_code, COALESCE(d.last_error, '') AS last_error,
    COALESCE(d.last_attempt_at, 0) AS last_attempt_at, COALESCE(d.next_attempt_at, 0) AS next_attempt_at,
    COALESCE(d.created_at, 0) AS queued_at, COALESCE(d.finished_at, 0) AS finished_at
FROM service_webhooks w
LEFT JOIN webhook_deliveries d ON d.id = (SELECT MAX(m.id) FROM webhook_deliveries m WHERE m.webhook_id = w.id)
WHERE w.id = $1 AND w.user_id = $2;

-- name: listTargets :many
SELECT id, scope_type, scope_cert_id, scope_domain FROM service_webhooks
WHERE user_id = $1 AND enabled AND event_key = $2
ORDER BY id;

-- name: insertDelivery :one
INSERT INTO webhook_deliveries (webhook_id, event, cert_id, issue_history_id, body, status, attempts, last_status_code,
    last_error, last_attempt_at, next_attempt_at, created_at, finished_at)
VALUES (sqlc.arg(webhook_id), sqlc.arg(event), sqlc.arg(cert_id), sqlc.arg(issue_history_id), sqlc.arg(body), 'PENDING', 0, 0, '', 0,
    CASE WHEN EXISTS (SELECT 1 FROM webhook_deliveries h
        WHERE h.webhook_id = sqlc.arg(webhook_id) AND h.cert_id = sqlc.arg(cert_id) AND h.status = 'PENDING' AND h.next_attempt_at > 0)
        THEN 0 ELSE CAST(sqlc.arg(now) AS BIGINT) END, CAST(sqlc.arg(now) AS BIGINT), 0)
ON CONFLICT (webhook_id, issue_history_id) WHERE issue_history_id > 0 DO NOTHING
RETURNING id;

-- name: getDelivery :one
SELECT id, webhook_id, event, cert_id, issue_history_id, status, attempts, last_status_code, last_error, last_attempt_at,
    next_attempt_at, created_at, finished_at
FROM webhook_deliveries WHERE id = $1 AND webhook_id = $2;

-- name: listDeliveries :many
SELECT id, webhook_id, event, cert_id, issue_history_id, status, attempts, last_status_code, last_error, last_attempt_at,
    next_attempt_at, created_at, finished_at
FROM webhook_deliveries WHERE webhook_id = sqlc.arg(webhook_id)
ORDER BY id DESC LIMIT CAST(sqlc.arg(page_limit) AS BIGINT) OFFSET CAST(sqlc.arg(page_offset) AS BIGINT);

-- name: countDeliveries :one
SELECT COUNT(*) FROM webhook_deliveries WHERE webhook_id = $1;

-- name: pendingTest :one
SELECT id FROM webhook_deliveries
WHERE webhook_id = $1 AND cert_id = 0 AND status = 'PENDING' AND next_attempt_at > 0;

-- name: requeueDelivery :exec
UPDATE webhook_deliveries SET status = 'PENDING', attempts = 0, finished_at = 0,
    next_attempt_at = CASE WHEN EXISTS (SELECT 1 FROM webhook_deliveries h
        WHERE h.webhook_id = sqlc.arg(webhook_id) AND h.cert_id = sqlc.arg(cert_id) AND h.status = 'PENDING' AND h.next_attempt_at > 0)
        THEN 0 ELSE CAST(sqlc.arg(now) AS BIGINT) END
WHERE webhook_deliveries.id = sqlc.arg(id);

-- name: hastenDelivery :exec
UPDATE webhook_deliveries SET next_attempt_at = $2 WHERE id = $1 AND status = 'PENDING' AND next_attempt_at > $2;

-- name: dueDeliveries :many
SELECT id, event, cert_id, issue_history_id, body, attempts FROM webhook_deliveries
WHERE webhook_id = $1 AND status = 'PENDING' AND next_attempt_at > 0 AND next_attempt_at <= $2
ORDER BY next_attempt_at, id LIMIT $3;

-- name: nextAttempt :one
SELECT next_attempt_at FROM webhook_deliveries
WHERE webhook_id = $1 AND status = 'PENDING' AND next_attempt_at > 0
ORDER BY next_attempt_at, id LIMIT 1;

-- name: recordAttempt :execrows
UPDATE webhook_deliveries SET status = $2, attempts = attempts + 1, last_status_code = $3, last_error = $4,
    last_attempt_at = $5, next_attempt_at = $6, finished_at = $7
WHERE id = $1 AND status = 'PENDING';

-- name: anyHeld :one
SELECT EXISTS (SELECT 1 FROM webhook_deliveries WHERE webhook_id = $1 AND status = 'PENDING' AND next_attempt_at = 0);

-- name: releaseHeld :exec
UPDATE webhook_deliveries SET next_attempt_at = $3 WHERE webhook_deliveries.id = (SELECT MIN(h.id) FROM webhook_deliveries h
    WHERE h.webhook_id = $1 AND h.cert_id = $2 AND h.status = 'PENDING' AND h.next_attempt_at = 0);

-- name: plan :exec
UPDATE service_webhooks SET drain_token = $2, drain_due = $3 WHERE id = $1;

-- Whose webhook a job is to drain, unless another job is planned for it.
-- name: drained :one
SELECT user_id, url FROM service_webhooks WHERE id = @webhook_id AND drain_token = @token;

-- name: lease :exec
UPDATE service_webhooks SET lease_holder = $2, lease_until = $3 WHERE id = $1;

-- name: saveRun :exec
UPDATE service_webhooks SET failing_since = $2, last_failure_at = $3, lease_holder = $4, lease_until = $5 WHERE id = $1;

-- name: disable :exec
UPDATE service_webhooks SET enabled = FALSE, disabled_reason = $2, version = version + 1, updated_at = $3 WHERE id = $1;

-- name: listOverdue :many
SELECT id FROM service_webhooks
WHERE drain_token <> 0 AND drain_due < $1 AND lease_until < $2
ORDER BY drain_due LIMIT $3;

-- name: listStray :many
SELECT id FROM service_webhooks
WHERE drain_token <> 0 AND drain_due > $1
ORDER BY drain_due LIMIT $2;

-- name: hasten :exec
UPDATE webhook_deliveries SET next_attempt_at = @now
WHERE webhook_id = @webhook_id AND status = 'PENDING' AND next_attempt_at > @latest;

-- name: pruneDeliveries :execrows
DELETE FROM webhook_deliveries WHERE webhook_deliveries.finished_at > 0 AND webhook_deliveries.finished_at < $1 AND webhook_deliveries.id IN (
    SELECT f.id FROM webhook_deliveries f WHERE f.finished_at > 0 AND f.finished_at < $1 ORDER BY f.finished_at LIMIT $2);
