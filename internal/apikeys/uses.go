package apikeys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// usesPerTransaction bounds how long the one writer of SQLite is taken.
	usesPerTransaction = 1000
	// forgetAfter without a use, what is kept of a key is dropped.
	forgetAfter = time.Hour
)

// Start has the times of last use written at every interval until Stop.
func (s *Service) Start(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.stopped = make(chan struct{})
	go func() {
		defer close(s.stopped)
		tick := time.NewTicker(s.UseInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := s.WriteUses(ctx); err != nil && !errors.Is(err, context.Canceled) {
				s.Log.WarnContext(ctx, "the last uses of API keys could not be written; they are tried again", "error", err)
			}
		}
	}()
}

// Stop ends what Start began and writes what is left, unless ctx is done: then
// the uses of the last minute are lost.
func (s *Service) Stop(ctx context.Context) error {
	if s.cancel != nil {
		s.cancel()
		<-s.stopped
	}
	if ctx.Err() == nil {
		return s.WriteUses(ctx)
	}
	return nil
}

// use is a key and when it was used, Unix ms.
type use struct {
	id, at int64
	known  *known
}

// WriteUses writes the uses that the database does not know yet, in one
// transaction for every thousand keys. What fails is written the next time.
func (s *Service) WriteUses(ctx context.Context) error {
	s.write.Lock()
	defer s.write.Unlock()
	var uses []use
	old := s.Now().Add(-forgetAfter).UnixMilli()
	s.known.Range(func(id, entry any) bool {
		k := entry.(*known)
		switch at := k.usedAt.Load(); {
		case at > k.written.Load():
			uses = append(uses, use{id.(int64), at, k})
		case at < old:
			s.known.Delete(id)
		}
		return true
	})
	// In one order on all nodes, or two of them could wait for each other.
	slices.SortFunc(uses, func(a, b use) int { return int(a.id - b.id) })
	for batch := range slices.Chunk(uses, usesPerTransaction) {
		err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
			q := New(tx)
			for _, u := range batch {
				if err := q.noteUse(ctx, noteUseParams{ID: u.id, UsedAt: u.at}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("write the last uses of %d API keys: %w", len(batch), err)
		}
		for _, u := range batch {
			u.known.written.Store(u.at)
		}
	}
	return nil
}

// addUse puts a use into the record that the database does not know yet.
func (s *Service) addUse(k *APIKey) {
	if entry, ok := s.known.Load(k.ID); ok {
		k.LastUsedAt = max(k.LastUsedAt, entry.(*known).usedAt.Load())
	}
}
