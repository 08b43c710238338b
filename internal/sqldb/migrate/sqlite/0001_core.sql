-- +goose Up
-- Who did what. Rows are only added, each chained to the one before it by its
-- mac; what is chained, and how, is in internal/audit.
CREATE TABLE audit_log (
    user_id    INTEGER NOT NULL, -- whose log it is in; 0: nobody's
    lane       INTEGER NOT NULL, -- nobody's log has several chains; a user's has lane 0 alone
    seq        INTEGER NOT NULL, -- number in the chain, from 1
    at         INTEGER NOT NULL, -- Unix ms
    actor      TEXT   NOT NULL, -- "session 7", "key 3", "device 9", "system"
    action     TEXT   NOT NULL, -- "certificate.export"
    object     TEXT   NOT NULL, -- "certificate 12"
    detail     TEXT   NOT NULL, -- JSON, never a secret
    request_id TEXT   NOT NULL,
    ip         TEXT   NOT NULL,
    user_agent TEXT   NOT NULL,
    mac        BLOB  NOT NULL,
    PRIMARY KEY (user_id, lane, seq)
);
CREATE INDEX audit_log_at ON audit_log (user_id, at, seq);
CREATE INDEX audit_log_action ON audit_log (user_id, action, at, seq);
-- The newest entry of each chain, under a seal of its own.
CREATE TABLE audit_heads (
    user_id INTEGER NOT NULL,
    lane    INTEGER NOT NULL,
    seq     INTEGER NOT NULL, -- 0: none yet
    mac     BLOB  NOT NULL,
    seal    BLOB  NOT NULL,
    PRIMARY KEY (user_id, lane)
);
-- The key of the chains, which the master key seals.
CREATE TABLE audit_keys (
    id         INTEGER PRIMARY KEY,
    key_sealed BLOB  NOT NULL,
    created_at INTEGER NOT NULL
);
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_heads_stay BEFORE DELETE ON audit_heads
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_heads_grow BEFORE UPDATE ON audit_heads
    WHEN NEW.seq <= OLD.seq OR NEW.user_id <> OLD.user_id OR NEW.lane <> OLD.lane
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_keys_stay BEFORE DELETE ON audit_keys
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
-- +goose StatementEnd
CREATE TABLE settings (
    name  TEXT  PRIMARY KEY,
    value BLOB NOT NULL
);
