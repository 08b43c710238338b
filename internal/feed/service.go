package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// Retained is how many entries are kept per device.
	Retained = 1000
	// DefaultLimit is the number of entries of an answer that asks for none.
	DefaultLimit = 20
	// defaultInterval is what X-Poll-Interval says unless configured.
	defaultInterval = 10 * time.Second
)

// Deps are what a Service needs. DB and Now are required.
type Deps struct {
	DB           *sqldb.DB
	Now          func() time.Time // gives ts_ms
	PollInterval time.Duration    // X-Poll-Interval, whole seconds; 0: 10 s
}

// Service appends to the streams of devices and reads them.
type Service struct {
	db     *sqldb.DB
	now    func() time.Time
	heads  *heads
	tick   time.Duration // how often a long poll looks for what another process appended
	closed chan struct{}
	close  func()
}

// NewService returns a Service; Close it before the server stops.
func NewService(d Deps) *Service {
	if d.PollInterval == 0 {
		d.PollInterval = defaultInterval
	}
	seconds := max(1, int64(d.PollInterval/time.Second))
	s := &Service{
		db: d.DB, now: d.Now, tick: time.Second, closed: make(chan struct{}),
		heads: newHeads(d.DB.Dialect() == sqldb.Postgres, strconv.FormatInt(seconds, 10)),
	}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	return s
}

// Close ends all long polls with 204 at once, and those still to come.
func (s *Service) Close() { s.close() }

// Entry is a signal in a stream, as it is served (wire.md section 6).
type Entry struct {
	ID   Cursor          `json:"-"`
	Type string          `json:"type"`
	TSMS int64           `json:"ts_ms"` // Unix ms, unique per device
	Ref  json.RawMessage `json:"ref" doc:"An object that names what to fetch again; its members depend on the type."`
}

// Append writes a signal for the device with the transaction that made the
// change, and wakes long polls once that is committed. Other appends for the
// same device wait until tx ends; a transaction that signals several devices
// does so in ascending order of their ids, or PostgreSQL may have to repeat it.
func (s *Service) Append(ctx context.Context, tx *sqldb.Tx, deviceID int64, signal Signal) error {
	ref, err := signal.encode()
	if err != nil {
		return err
	}
	at, err := write(ctx, tx, deviceID, s.now().UnixMilli(), signal.Type, ref)
	if err != nil {
		return err
	}
	s.heads.appended(deviceID, at)
	tx.AfterCommit(func() { s.heads.committed(deviceID, at) })
	return nil
}

// Read gives the first limit entries after a cursor, oldest first, and fewer
// when they are large. A cursor other than 0-0 that is not the id of an entry of
// this stream, or one behind which entries are trimmed, is a fault with code
// 40901.
func (s *Service) Read(ctx context.Context, deviceID int64, after Cursor, limit int64) ([]Entry, error) {
	batch, err := s.read(ctx, deviceID, after, limit)
	return batch.entries, err
}

func (s *Service) read(ctx context.Context, deviceID int64, after Cursor, limit int64) (batch, error) {
	h := s.heads.use(deviceID)
	defer s.heads.release(h)
	return s.look(ctx, h, deviceID, after, limit)
}

// batch is an answer; more tells that it does not reach the stream's end.
type batch struct {
	entries []Entry
	more    bool
}

// look reads the entries first and the bounds afterwards. A cursor whose own
// entry stood there had everything after it standing there too. One that is the
// newest trimmed entry even now was so then.
func (s *Service) look(ctx context.Context, h *head, deviceID int64, after Cursor, limit int64) (batch, error) {
	began := time.Now()
	var entries []Entry
	kept := false
	if !after.foreign() {
		var err error
		if entries, kept, err = readEntries(ctx, s.db.Reader(), deviceID, after, limit); err != nil {
			return batch{}, err
		}
	}
	b, err := readBounds(ctx, s.db.Reader(), deviceID)
	if err != nil {
		return batch{}, err
	}
	s.heads.observed(h, b.head, began)
	switch {
	case kept, b.newestTrimmed(after):
		more := len(entries) > 0 && entries[len(entries)-1].ID.Compare(b.head) < 0
		return batch{entries, more}, nil
	case b.lost(after):
		return batch{}, s.expired(ctx, deviceID, b, "cursor_trimmed", "Entries after the cursor are no longer kept; drop it, fetch all state again and poll without a cursor.")
	}
	return batch{}, s.expired(ctx, deviceID, b, "cursor_unknown", "The cursor is not one of this device's stream; drop it, fetch all state again and poll without a cursor.")
}

// expired is the 409/40901, which says where to start over.
func (s *Service) expired(ctx context.Context, deviceID int64, b bounds, reason, what string) error {
	oldest, _, err := readEntries(ctx, s.db.Reader(), deviceID, b.trimmed, 1)
	if err != nil {
		return fmt.Errorf("find the oldest entry: %w", err)
	}
	earliest := b.head // 0-0 when there never was one
	if len(oldest) > 0 {
		earliest = oldest[0].ID
	}
	return &fault.Error{Code: fault.CodeCursorExpired, Key: "CURSOR_EXPIRED", What: what, Params: map[string]any{
		"action": "full_resync", "reset_cursor": true, "signal_type": "state.resync_required",
		"reason": reason, "earliest_retained_id": earliest.String(),
	}}
}

// Wait is Read that, when nothing is new, waits up to the given time for the
// first entry. It gives none when the time is over or the service is closed.
func (s *Service) Wait(ctx context.Context, deviceID int64, after Cursor, limit int64, wait time.Duration) ([]Entry, error) {
	batch, err := s.wait(ctx, deviceID, after, limit, wait)
	return batch.entries, err
}

func (s *Service) wait(ctx context.Context, deviceID int64, after Cursor, limit int64, wait time.Duration) (batch, error) {
	h := s.heads.use(deviceID)
	defer s.heads.release(h)
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	ticker := time.NewTicker(s.tick)
	defer ticker.Stop()
	for seated := false; ; {
		growth := s.heads.growth(h) // before the look, or an append between is missed
		if s.heads.idle(deviceID, after) == nil {
			found, err := s.look(ctx, h, deviceID, after, limit)
			if err != nil || len(found.entries) > 0 {
				return found, err
			}
		}
		if !seated {
			if seated = s.heads.sit(h); !seated {
				return batch{}, nil
			}
			defer s.heads.stand(h)
		}
		select {
		case <-growth:
		case <-ticker.C:
		case <-deadline.C:
			return batch{}, nil
		case <-s.closed:
			return batch{}, nil
		case <-ctx.Done():
			return batch{}, ctx.Err()
		}
	}
}
