package feed

import (
	"context"
	"encoding/json"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

// maxAnswer ends a batch early once its refs reach so many bytes: answers stay
// under 4 MiB (wire.md 1.1). One entry is always given.
const maxAnswer = 2 << 20

// The rows are read one by one, because a whole batch may be large.
const entriesAfter = `SELECT ms, seq, type, ref FROM feed_entries
	WHERE device_id = $1 AND ms >= $2 AND (ms > $2 OR seq > $3) ORDER BY ms LIMIT $4`

func readEntries(ctx context.Context, q sqldb.Querier, deviceID int64, after Cursor, limit int64) (_ []Entry, err error) {
	rows, err := q.QueryContext(ctx, entriesAfter, deviceID, after.MS, after.Seq, limit)
	if err != nil {
		return nil, fmt.Errorf("read the feed of device %d: %w", deviceID, err)
	}
	defer rows.Close()
	var entries []Entry
	for size := 0; size < maxAnswer && rows.Next(); {
		var e Entry
		var ref string
		if err := rows.Scan(&e.ID.MS, &e.ID.Seq, &e.Type, &ref); err != nil {
			return nil, fmt.Errorf("read the feed of device %d: %w", deviceID, err)
		}
		e.TSMS, e.Ref = e.ID.MS, json.RawMessage(ref)
		size += len(ref)
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the feed of device %d: %w", deviceID, err)
	}
	return entries, nil
}

// bounds are the ids of a stream's newest and of its newest trimmed entry.
type bounds struct{ head, trimmed Cursor }

// readBounds gives zero bounds for a device without signals.
func readBounds(ctx context.Context, q sqldb.Querier, deviceID int64) (bounds, error) {
	row, err := New(q).readHead(ctx, deviceID)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return bounds{}, nil
	}
	if err != nil {
		return bounds{}, fmt.Errorf("read the feed head of device %d: %w", deviceID, err)
	}
	return bounds{head: Cursor{row.Ms, row.Seq}, trimmed: Cursor{row.TrimmedMs, row.TrimmedSeq}}, nil
}

// write appends one entry and trims what is too much. The upsert of the head
// row locks it until the transaction ends.
func write(ctx context.Context, tx *sqldb.Tx, deviceID, nowMS int64, kind, ref string) (Cursor, error) {
	if err := tx.Keep(ctx, "devices", deviceID); err != nil {
		return Cursor{}, err
	}
	q := New(tx)
	row, err := q.advanceHead(ctx, advanceHeadParams{DeviceID: deviceID, Ms: nowMS})
	if err != nil {
		return Cursor{}, fmt.Errorf("advance the feed of device %d: %w", deviceID, err)
	}
	err = q.insertEntry(ctx, insertEntryParams{DeviceID: deviceID, Ms: row.Ms, Seq: row.Seq, Type: kind, Ref: ref})
	if err != nil {
		return Cursor{}, fmt.Errorf("append to the feed of device %d: %w", deviceID, err)
	}
	if excess := row.Seq - row.TrimmedSeq - Retained; excess > 0 {
		if err := trim(ctx, q, deviceID, row.TrimmedMs, excess); err != nil {
			return Cursor{}, fmt.Errorf("trim the feed of device %d: %w", deviceID, err)
		}
	}
	return Cursor{row.Ms, row.Seq}, nil
}

// trim deletes the oldest entries. It seeks past what was trimmed before, which
// keeps it one index step even where the engine has not cleaned up yet.
func trim(ctx context.Context, q *Queries, deviceID, trimmedMS, count int64) error {
	last, err := q.lastToTrim(ctx, lastToTrimParams{DeviceID: deviceID, Ms: trimmedMS, Offset: int32(count - 1)})
	if err != nil {
		return err
	}
	if err := q.trimEntries(ctx, trimEntriesParams{DeviceID: deviceID, Ms: trimmedMS, Ms_2: last.Ms}); err != nil {
		return err
	}
	return q.setTrimmed(ctx, setTrimmedParams{DeviceID: deviceID, TrimmedMs: last.Ms, TrimmedSeq: last.Seq})
}
