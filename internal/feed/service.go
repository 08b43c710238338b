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
// when they are large. A cursor ahead of the stream, or one behind which
// entries are trimmed, is a fault with code 40901.
func (s *Service) Read(ctx context.Context, deviceID int64, after Cursor, limit int64) ([]Entry, error) {
	h := s.heads.use(deviceID)
	defer s.heads.release(h)
	return s.read(ctx, h, deviceID, after, limit)
}

// read looks at the entries first and at the bounds afterwards: if nothing
// after the cursor is trimmed then, nothing was missing before.
func (s *Service) read(ctx context.Context, h *head, deviceID int64, after Cursor, limit int64) ([]Entry, error) {
	began := time.Now()
	entries, err := readEntries(ctx, s.db.Reader(), deviceID, after, limit)
	if err != nil {
		return nil, err
	}
	b, err := readBounds(ctx, s.db.Reader(), deviceID)
	if err != nil {
		return nil, err
	}
	s.heads.observed(h, b.head, began)
	switch {
	case after == Cursor{}: // whatever is retained
		return entries, nil
	case after.Compare(b.head) > 0:
		return nil, s.expired(ctx, deviceID, b, "cursor_unknown", "The cursor is not one of this device's stream; drop it, fetch all state again and poll without a cursor.")
	case after.Compare(b.trimmed) < 0:
		return nil, s.expired(ctx, deviceID, b, "cursor_trimmed", "Entries after the cursor are no longer kept; drop it, fetch all state again and poll without a cursor.")
	}
	return entries, nil
}

// expired is the 409/40901 of wire.md section 6.
func (s *Service) expired(ctx context.Context, deviceID int64, b bounds, reason, what string) error {
	oldest, err := readEntries(ctx, s.db.Reader(), deviceID, b.trimmed, 1)
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
	h := s.heads.use(deviceID)
	defer s.heads.release(h)
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	ticker := time.NewTicker(s.tick)
	defer ticker.Stop()
	for {
		growth := s.heads.growth(h) // before the look, or an append between is missed
		if s.heads.idle(deviceID, after) == nil {
			entries, err := s.read(ctx, h, deviceID, after, limit)
			if err != nil || len(entries) > 0 {
				return entries, err
			}
		}
		select {
		case <-growth:
		case <-ticker.C:
		case <-deadline.C:
			return nil, nil
		case <-s.closed:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
