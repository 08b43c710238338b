package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// syscalls that make writes durable. SQLite here uses fsync alone.
const syncs = "fsync,fdatasync,sync_file_range,msync"

// failingSyncs starts a server whose n-th and every further sync of these files
// fails in each thread. The trace is written to a file. Other files, such as the
// stamp of the audit log, hold nothing that is acknowledged.
func failingSyncs(t *testing.T, n int, trace string, files ...string) []string {
	t.Helper()
	command := []string{"strace", "-f", "--seccomp-bpf", "-qq", "-ttt", "-o", trace, "-e", "trace=" + syncs, "-e", fmt.Sprintf("inject=fsync,fdatasync:error=EIO:when=%d+", n)}
	for _, file := range files {
		command = append(command, "-P", file)
	}
	return command
}

// needStrace fails the test where it could only seem to pass.
func needStrace(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "strace", "-qq", "-e", "trace=none", "true").CombinedOutput(); err != nil {
		t.Fatalf("this test needs strace and the right to trace a child (make test installs the package; a container needs --cap-add SYS_PTRACE): %v: %s", err, out)
	}
}

// firstFailure is when the first sync failed, by the trace.
func firstFailure(t *testing.T, trace string) (at time.Time, failed bool) {
	t.Helper()
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); strings.Contains(lines.Text(), "(INJECTED)") {
			seconds, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return time.UnixMicro(int64(seconds * 1e6)), true
		}
	}
	return time.Time{}, false
}

// A disk whose syncs fail: nothing is acknowledged after the first failure, the
// server stops and says why, and what it had acknowledged is there.
func TestNothingIsAcknowledgedAfterAFailedSync(t *testing.T) {
	t.Parallel()
	needStrace(t)
	data := t.TempDir()
	database := filepath.Join(data, "certharbor.db")
	l := newLedger()
	s := serve(t, setup{data: data})
	var all []*writer
	for n := range int64(writers) {
		all = append(all, newWriter(t, s, l, n+1, "--data", data))
	}
	s.stop()
	for _, n := range []int{1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 50} {
		trace := filepath.Join(t.TempDir(), "trace")
		s := launch(t, setup{data: data, wrapper: failingSyncs(t, n, trace, database, database+"-wal")})
		served := s.await()
		if served {
			l.untilBroken(t, s, all)
		}
		if code := s.wait(); code != 1 || !strings.Contains(s.log.String(), "certharbor: ") {
			t.Errorf("sync %d: exit code %d:\n%s", n, code, s.log)
		}
		if served && !strings.Contains(s.log.String(), "certharbor: the disk failed: a write could not be made durable. Nothing was acknowledged after it. Check the disk, then start again") {
			t.Errorf("sync %d: no clear message:\n%s", n, s.log)
		}
		at, failed := firstFailure(t, trace)
		if !failed {
			t.Errorf("sync %d: none failed", n)
		}
		if began := l.lastBegan(); began.After(at) {
			t.Errorf("sync %d failed at %s; acknowledged was a write that began %s later", n, at, began.Sub(at))
		}
		t.Logf("sync %d: serving %v, %d acknowledged so far", n, served, l.count())

		s = serve(t, setup{data: data})
		l.verify(t, s, all, 2)
		s.stop()
		if t.Failed() {
			return
		}
	}
	l.failedCheckpoint(t, data, all)
	checkDatabase(t, database)
}

// failedCheckpoint lets only the syncs of the database file fail, which SQLite
// makes when it writes the log back, after the commits.
func (l *ledger) failedCheckpoint(t *testing.T, data string, all []*writer) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	s := serve(t, setup{data: data, wrapper: failingSyncs(t, 1, trace, filepath.Join(data, "certharbor.db"))})
	before := l.count()
	l.untilBroken(t, s, all)
	if code := s.wait(); code != 1 || !strings.Contains(s.log.String(), "certharbor: the disk failed") || l.count() == before {
		t.Errorf("exit code %d after %d writes:\n%s", code, l.count()-before, s.log)
	}
	if at, failed := firstFailure(t, trace); !failed || l.lastBegan().After(at) {
		t.Errorf("failed %v at %s; acknowledged was a write that began at %s", failed, at, l.lastBegan())
	}
	t.Logf("checkpoint: failed after %d writes", l.count()-before)
	s = serve(t, setup{data: data})
	l.verify(t, s, all, 2)
	s.stop()
}

// untilBroken writes until the server ends. Refusals are 503 and say why.
func (l *ledger) untilBroken(t *testing.T, s *server, all []*writer) {
	t.Helper()
	var group sync.WaitGroup
	for _, w := range all {
		w.me = w.me.at(s)
		group.Go(func() {
			if r := w.run(t.Context()); r != nil && (r.Status != 503 || !strings.Contains(string(r.Body), "disk failed")) {
				t.Errorf("writer %d: %v", w.number, r)
			}
		})
	}
	group.Wait()
}

// Syncs that fail in the very first start leave nothing that keeps the next
// one from working.
func TestFailedSyncsInTheFirstStart(t *testing.T) {
	t.Parallel()
	needStrace(t)
	for _, n := range []int{1, 2, 3, 5, 8, 13, 21} {
		data := t.TempDir()
		s := launch(t, setup{data: data, wrapper: failingSyncs(t, n, filepath.Join(t.TempDir(), "trace"))})
		if s.await() {
			s.kill() // a thread that never made so many
		} else if code := s.wait(); code != 1 || !strings.Contains(s.log.String(), "certharbor: ") {
			t.Errorf("sync %d: exit code %d:\n%s", n, code, s.log)
		}
		t.Logf("sync %d: %s", n, s.log)
		serve(t, setup{data: data}).stop()
		checkDatabase(t, filepath.Join(data, "certharbor.db"))
	}
}
