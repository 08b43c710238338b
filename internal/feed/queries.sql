-- name: advanceHead :one
INSERT INTO feed_heads (device_id, ms, seq, trimmed_ms, trimmed_seq, base)
VALUES (@device_id, @ms, CAST(@base AS BIGINT) + 1, 0, CAST(@base AS BIGINT), @base)
ON CONFLICT (device_id) DO UPDATE SET
    seq = feed_heads.seq + 1,
    ms  = CASE WHEN feed_heads.ms >= excluded.ms THEN feed_heads.ms + 1 ELSE excluded.ms END
RETURNING ms, seq, trimmed_ms, trimmed_seq;

-- name: insertEntry :exec
INSERT INTO feed_entries (device_id, ms, seq, type, ref) VALUES ($1, $2, $3, $4, $5);

-- name: lastToTrim :one
SELECT ms, seq FROM feed_entries WHERE device_id = $1 AND ms > $2 ORDER BY ms LIMIT 1 OFFSET $3;

-- name: trimEntries :exec
DELETE FROM feed_entries WHERE device_id = $1 AND ms > $2 AND ms <= $3;

-- name: setTrimmed :exec
UPDATE feed_heads SET trimmed_ms = $2, trimmed_seq = $3 WHERE device_id = $1;

-- name: readHead :one
SELECT ms, seq, trimmed_ms, trimmed_seq, base FROM feed_heads WHERE device_id = $1;
