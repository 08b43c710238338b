-- +goose Up
CREATE TABLE mails (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id     INTEGER NOT NULL, -- whose audit log tells of a failure; 0: nobody's
    kind        TEXT   NOT NULL, -- what it is for, for example "reset-code"
    recipient   TEXT   NOT NULL,
    body_sealed BLOB  NOT NULL, -- JSON of subject, text and HTML; empty once it is sent or given up
    status      TEXT   NOT NULL, -- QUEUED, SENT, FAILED
    attempts    INTEGER NOT NULL,
    error       TEXT   NOT NULL, -- of the last attempt, '': none
    created_at  INTEGER NOT NULL, -- Unix ms
    expires_at  INTEGER NOT NULL, -- after which it is not sent any more, Unix ms
    updated_at  INTEGER NOT NULL  -- Unix ms
);
CREATE INDEX mails_updated ON mails (status, updated_at);
