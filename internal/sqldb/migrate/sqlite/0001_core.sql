-- +goose Up
CREATE TABLE audit_log (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL, -- Unix ms
    user_id    INTEGER NOT NULL, -- whose log it is in; 0: nobody's
    actor      TEXT   NOT NULL, -- "session 7", "key 3", "device 9", "system"
    action     TEXT   NOT NULL, -- "certificate.export"
    object     TEXT   NOT NULL, -- "certificate 12"
    detail     TEXT   NOT NULL, -- JSON, never a secret
    request_id TEXT   NOT NULL
);
CREATE INDEX audit_log_user ON audit_log (user_id, id);
CREATE TABLE settings (
    name  TEXT  PRIMARY KEY,
    value BLOB NOT NULL
);
