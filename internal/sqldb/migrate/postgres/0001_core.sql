-- +goose Up
-- Who did what. Rows are only added, each chained to the one before it by its
-- mac; what is chained, and how, is in internal/audit.
CREATE TABLE audit_log (
    user_id    BIGINT NOT NULL, -- whose log it is in; 0: nobody's
    lane       BIGINT NOT NULL, -- nobody's log has several chains; a user's has lane 0 alone
    seq        BIGINT NOT NULL, -- number in the chain, from 1
    at         BIGINT NOT NULL, -- Unix ms
    actor      TEXT   NOT NULL, -- "session 7", "key 3", "device 9", "system"
    action     TEXT   NOT NULL, -- "certificate.export"
    object     TEXT   NOT NULL, -- "certificate 12"
    detail     TEXT   NOT NULL, -- JSON, never a secret
    request_id TEXT   NOT NULL,
    ip         TEXT   NOT NULL,
    user_agent TEXT   NOT NULL,
    mac        BYTEA  NOT NULL,
    PRIMARY KEY (user_id, lane, seq)
);
CREATE INDEX audit_log_at ON audit_log (user_id, at, seq);
CREATE INDEX audit_log_action ON audit_log (user_id, action, at, seq);
-- The newest entry of each chain, under a seal of its own.
CREATE TABLE audit_heads (
    user_id BIGINT NOT NULL,
    lane    BIGINT NOT NULL,
    seq     BIGINT NOT NULL, -- 0: none yet
    mac     BYTEA  NOT NULL,
    seal    BYTEA  NOT NULL,
    PRIMARY KEY (user_id, lane)
);
-- The key of the chains, which the master key seals.
CREATE TABLE audit_keys (
    id         BIGINT PRIMARY KEY,
    key_sealed BYTEA  NOT NULL,
    created_at BIGINT NOT NULL
);
-- +goose StatementBegin
CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only';
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();
CREATE TRIGGER audit_heads_stay BEFORE DELETE OR TRUNCATE ON audit_heads
    FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();
CREATE TRIGGER audit_heads_grow BEFORE UPDATE ON audit_heads
    FOR EACH ROW WHEN (NEW.seq <= OLD.seq OR NEW.user_id <> OLD.user_id OR NEW.lane <> OLD.lane) EXECUTE FUNCTION audit_append_only();
CREATE TRIGGER audit_keys_stay BEFORE DELETE OR TRUNCATE ON audit_keys
    FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();
CREATE TABLE settings (
    name  TEXT  PRIMARY KEY,
    value BYTEA NOT NULL
);
