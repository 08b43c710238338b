-- +goose Up
-- The number before a stream's first entry. Streams from before it existed began with 1.
ALTER TABLE feed_heads ADD COLUMN base BIGINT NOT NULL DEFAULT 0;
