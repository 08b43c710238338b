-- +goose Up
-- One row per device that ever had a signal; its lock serialises appends.
CREATE TABLE feed_heads (
    device_id   INTEGER PRIMARY KEY REFERENCES devices (id) ON DELETE CASCADE,
    ms          INTEGER NOT NULL, -- id of the newest entry, <ms>-<seq>
    seq         INTEGER NOT NULL, -- entries ever written: 1, 2, 3, …
    trimmed_ms  INTEGER NOT NULL, -- id of the newest entry that was trimmed
    trimmed_seq INTEGER NOT NULL  -- 0: none was
);
CREATE TABLE feed_entries (
    device_id INTEGER NOT NULL REFERENCES devices (id) ON DELETE CASCADE,
    ms        INTEGER NOT NULL, -- Unix ms, also ts_ms; grows strictly per device
    seq       INTEGER NOT NULL,
    type      TEXT   NOT NULL, -- "install.updated"
    ref       TEXT   NOT NULL, -- JSON object
    PRIMARY KEY (device_id, ms)
);
