-- +goose Up
CREATE TABLE service_webhooks (
    id              INTEGER PRIMARY KEY AUTOINCREMENT, -- X-BB-Webhook-Id
    user_id         INTEGER  NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    url             TEXT    NOT NULL,
    event_key       TEXT    NOT NULL,
    secret          BLOB   NOT NULL, -- sealed
    scope_type      TEXT    NOT NULL, -- all, cert_id, domain
    scope_cert_id   INTEGER  NOT NULL, -- 0 unless scope_type is cert_id
    scope_domain    TEXT    NOT NULL, -- '' unless scope_type is domain
    enabled         BOOLEAN NOT NULL,
    disabled_reason TEXT    NOT NULL, -- why the service disabled it, '' otherwise
    version         INTEGER  NOT NULL, -- grows with each change of url, secret or enabled
    failing_since   INTEGER  NOT NULL, -- Unix ms, 0: the last attempt was a success, or none was made
    last_failure_at INTEGER  NOT NULL, -- Unix ms, 0 with failing_since
    drain_token     INTEGER  NOT NULL, -- names the one job that drains it, 0: none is planned
    drain_due       INTEGER  NOT NULL, -- when that job is due, Unix ms
    lease_holder    TEXT    NOT NULL, -- the process that delivers now, '': none
    lease_until     INTEGER  NOT NULL, -- Unix ms
    created_at      INTEGER  NOT NULL, -- Unix ms
    updated_at      INTEGER  NOT NULL  -- Unix ms
);
CREATE INDEX service_webhooks_user ON service_webhooks (user_id, id);
CREATE INDEX service_webhooks_due ON service_webhooks (drain_due) WHERE drain_token <> 0;

CREATE TABLE webhook_deliveries (
    id               INTEGER PRIMARY KEY AUTOINCREMENT, -- X-BB-Delivery-Id
    webhook_id       INTEGER NOT NULL REFERENCES service_webhooks (id) ON DELETE CASCADE,
    event            TEXT   NOT NULL, -- certificate.issued, webhook.test
    cert_id          INTEGER NOT NULL, -- 0 for a test; the certificate may be gone
    issue_history_id INTEGER NOT NULL, -- 0 for a test
    body             TEXT   NOT NULL, -- the bytes that are sent
    status           TEXT   NOT NULL, -- PENDING, SUCCESS, PERMANENT_FAILURE, EXHAUSTED
    attempts         INTEGER NOT NULL,
    last_status_code INTEGER NOT NULL, -- 0: no answer, or no attempt yet
    last_error       TEXT   NOT NULL, -- a fixed sentence, never the receiver's words
    last_attempt_at  INTEGER NOT NULL, -- Unix ms, 0: none
    next_attempt_at  INTEGER NOT NULL, -- Unix ms, 0: finished, or held back by an earlier event of the certificate
    created_at       INTEGER NOT NULL, -- Unix ms
    finished_at      INTEGER NOT NULL  -- Unix ms, 0: pending
);
CREATE INDEX webhook_deliveries_webhook ON webhook_deliveries (webhook_id, id);
CREATE UNIQUE INDEX webhook_deliveries_issue ON webhook_deliveries (webhook_id, issue_history_id) WHERE issue_history_id > 0;
-- At most one event of a certificate is on its way to a webhook; the others wait for it.
CREATE UNIQUE INDEX webhook_deliveries_head ON webhook_deliveries (webhook_id, cert_id) WHERE status = 'PENDING' AND next_attempt_at > 0;
CREATE INDEX webhook_deliveries_held ON webhook_deliveries (webhook_id, cert_id, id) WHERE status = 'PENDING' AND next_attempt_at = 0;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_attempt_at, id) WHERE status = 'PENDING' AND next_attempt_at > 0;
CREATE INDEX webhook_deliveries_finished ON webhook_deliveries (finished_at) WHERE finished_at > 0;
