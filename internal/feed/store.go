package feed

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math/big"

	"certharbor.dev/certharbor/internal/sqldb"
)

// maxAnswer ends a batch early once its refs reach so many bytes: answers stay
// under 4 MiB. One entry is always given.
const maxAnswer = 2 << 20

// The rows are read one by one, because a whole batch may be large. The entry
// that the cursor names comes first, without what it refers to: that it is there
// shows that the cursor is one of this stream.
const entriesFrom = `SELECT ms, seq, type, CASE WHEN ms = $2 THEN '' ELSE ref END FROM feed_entries
	WHERE device_id = $1 AND ms >= $2 ORDER BY ms LIMIT $3`

// readEntries gives the first limit entries after a cursor. kept tells that the
// cursor is 0-0 or the id of an entry that stands there.
func readEntries(ctx context.Context, q sqldb.Querier, deviceID int64, after Cursor, limit int64) (entries []Entry, kept bool, err error) {
	rows, err := q.QueryContext(ctx, entriesFrom, deviceID, after.MS, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("read the feed of device %d: %w", deviceID, err)
	}
	defer rows.Close()
	kept = after == Cursor{}
	for size := 0; size < maxAnswer && int64(len(entries)) < limit && rows.Next(); {
		var e Entry
		var ref string
		if err := rows.Scan(&e.ID.MS, &e.ID.Seq, &e.Type, &ref); err != nil {
			return nil, false, fmt.Errorf("read the feed of device %d: %w", deviceID, err)
		}
		if e.ID.MS == after.MS {
			kept = e.ID == after
			continue
		}
		e.TSMS, e.Ref = e.ID.MS, json.RawMessage(ref)
		size += len(ref)
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("read the feed of device %d: %w", deviceID, err)
	}
	return entries, kept, nil
}

// bounds are the ids of a stream's newest and of its newest trimmed entry, and
// the number before its first one.
type bounds struct {
	head, trimmed Cursor
	base          int64
}

// newestTrimmed tells that c was the id of an entry after which nothing is lost.
func (b bounds) newestTrimmed(c Cursor) bool { return c == b.trimmed && c.MS > 0 }

// lost tells that c is the id of an entry that was trimmed before the newest of
// them. The times of those are not kept; their numbers are of this stream alone.
func (b bounds) lost(c Cursor) bool {
	return c.Seq > b.base && c.Seq < b.trimmed.Seq && c.MS > 0 && c.MS < b.trimmed.MS
}

// readBounds gives zero bounds for a device without signals.
func readBounds(ctx context.Context, q sqldb.Querier, deviceID int64) (bounds, error) {
	row, err := New(q).readHead(ctx, deviceID)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return bounds{}, nil
	}
	if err != nil {
		return bounds{}, fmt.Errorf("read the feed head of device %d: %w", deviceID, err)
	}
	return bounds{head: Cursor{row.Ms, row.Seq}, trimmed: Cursor{row.TrimmedMs, row.TrimmedSeq}, base: row.Base}, nil
}

// newBase gives the number before a stream's first entry: random, so that the
// ids of other devices, of this one before it was deleted and made anew, and of
// another server are none of this stream. It leaves 2^62 entries and fits a
// float.
func newBase() (int64, error) {
	const least, span = 1 << 32, 1<<48 - 1<<32
	n, err := rand.Int(rand.Reader, big.NewInt(span))
	if err != nil {
		return 0, fmt.Errorf("choose the first number of a stream: %w", err)
	}
	return least + n.Int64(), nil
}

// write appends one entry and trims what is too much. The upsert of the head
// row locks it until the transaction ends.
func write(ctx context.Context, tx *sqldb.Tx, deviceID, nowMS int64, kind, ref string) (Cursor, error) {
	if err := tx.Keep(ctx, "devices", deviceID); err != nil {
		return Cursor{}, err
	}
	q := New(tx)
	base, err := newBase() // of a stream that begins
	if err != nil {
		return Cursor{}, err
	}
	row, err := q.advanceHead(ctx, advanceHeadParams{DeviceID: deviceID, Ms: nowMS, Base: base})
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
