package main

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	kills      = 25 // of a server under load
	writers    = 4
	startKills = 12
)

// Whatever was acknowledged is there after a kill -9, and nothing is half there.
func TestAcknowledgedWritesSurviveKills(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	l := newLedger()
	s := serve(t, setup{data: data})
	var all []*writer
	for n := range int64(writers) {
		all = append(all, newWriter(t, s, l, n+1, "--data", data))
	}
	for range kills {
		l.load(t, s, all, 1+rand.IntN(60))
		s = serve(t, setup{data: data})
		l.verify(t, s, all, 2)
		if t.Failed() {
			return
		}
	}
	l.verify(t, s, all, poolSize)
	s.stop()
	checkDatabase(t, filepath.Join(data, "certharbor.db"))
	verifyAudit(t, "--data", data)
	t.Logf("%d acknowledged writes, %d kills", l.count(), kills)
}

// A first start that is killed anywhere, in the midst of the migrations or
// while the master key is made, leaves nothing that keeps the next from serving.
func TestKilledInTheFirstStart(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	serve(t, setup{data: t.TempDir()}).stop()
	whole := time.Since(begun)
	for n := range startKills {
		data := t.TempDir()
		s := launch(t, setup{data: data})
		select { // the moment is random in time: nothing outside tells how far a start is
		case <-time.After(whole * time.Duration(n) / startKills):
		case <-s.exited:
			t.Fatalf("the server ended by itself:\n%s", s.log)
		}
		s.kill()
		serve(t, setup{data: data}).stop()
		checkDatabase(t, filepath.Join(data, "certharbor.db"))
	}
}

// load lets the writers write at once and kills the server after the given
// number of acknowledgements, thus in the midst of others.
func (l *ledger) load(t *testing.T, s *server, all []*writer, acknowledgements int) {
	t.Helper()
	enough := l.count() + acknowledgements
	var group sync.WaitGroup
	for _, w := range all {
		group.Go(func() {
			if r := w.run(t.Context()); r != nil {
				t.Errorf("writer %d: %v", w.number, r)
				s.signal(syscall.SIGKILL)
			}
		})
	}
	deadline := time.After(patience)
	for l.count() < enough {
		select {
		case <-l.news:
		case <-s.exited:
			t.Fatalf("the server ended by itself:\n%s", s.log)
		case <-deadline:
			t.Fatalf("%d of %d acknowledgements", l.count(), enough)
		}
	}
	s.kill()
	group.Wait()
}

// verify compares the ledger with what the server shows, and uses the newest
// refresh tokens of some devices of each writer.
func (l *ledger) verify(t *testing.T, s *server, all []*writer, tokens int) {
	t.Helper()
	found := map[string]seen{}
	for _, w := range all {
		w.me = w.me.at(s)
		if err := w.observe(t.Context(), found); err != nil {
			t.Fatalf("writer %d: %v\n%s", w.number, err, s.log)
		}
		for _, n := range slices.Sorted(maps.Keys(w.devices)) {
			if tokens < poolSize && rand.IntN(poolSize) >= tokens {
				continue
			}
			d := w.devices[n]
			d.server = s
			if err := d.refresh(t.Context()); err != nil {
				t.Errorf("device %d: the newest refresh token: %v", n, err)
			}
		}
	}
	l.compare(t, found)
}

// verifyAudit requires that the audit log is whole; flags name the database.
func verifyAudit(t *testing.T, flags ...string) {
	t.Helper()
	var out strings.Builder
	if code := run(t.Context(), append([]string{"audit", "verify"}, flags...), nil, nil, &out, &out); code != 0 || !strings.Contains(out.String(), "nothing was changed") {
		t.Errorf("audit verify: %d %s", code, &out)
	}
	t.Log(strings.TrimSpace(out.String()))
}
