package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// process is a server under measurement.
type process struct {
	cmd  *exec.Cmd
	addr string
	out  *syncBuffer
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// binary builds the server once per run, as `make build` does.
var binary = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "certharbor-bench-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "certharbor")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../cmd/certharbor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return path, nil
})

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// spawn starts a server and waits until it answers ready.
func spawn(t testing.TB, addr, ready, path string, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(context.Background(), path, args...), addr: addr, out: &syncBuffer{}}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr, p.cmd.Stdout = p.out, io.Discard
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	deadline := time.Now().Add(20 * time.Second)
	for {
		response, err := http.Get("http://" + addr + ready)
		if err == nil {
			_ = response.Body.Close()
			return p
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer: %v\n%s", path, err, p.out)
		}
		time.Sleep(time.Millisecond)
	}
}

// ours starts the real server on a migrated database in folder.
func ours(t testing.TB, folder string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	addr := freeAddress(t)
	return spawn(t, addr, "/health", path, nil, "serve", "--listen", addr, "--data", folder)
}

// bare starts this test binary again as the bare server of that name.
func bare(t testing.TB, name, folder string) *process {
	t.Helper()
	addr := freeAddress(t)
	return spawn(t, addr, "/ready", os.Args[0], []string{"BENCH_BARE=" + name, "BENCH_ADDR=" + addr, "BENCH_FOLDER=" + folder})
}

// cpu is the CPU time the process has used, from /proc/<pid>/stat (clock
// ticks of 10 ms, so measure seconds, not milliseconds).
func (p *process) cpu(t testing.TB) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// residentKiB is the resident memory of the process in KiB.
func (p *process) residentKiB(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// drive sends the request n times over one connection and requires the status.
// It is a client as bare as can be, so that the cores are the server's.
func (p *process) drive(t testing.TB, request string, n, status int) {
	t.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReaderSize(conn, 256<<10)
	for range n {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != status {
			t.Fatalf("%d %s, want %d", response.StatusCode, body, status)
		}
	}
}

// perRequest is the server's CPU time per request, the least of several rounds
// that alternate with the other server's.
func perRequest(t testing.TB, request map[*process]string, status, n, rounds int) map[*process]time.Duration {
	t.Helper()
	least := map[*process]time.Duration{}
	for p, r := range request {
		p.drive(t, r, n/10, status) // warm
	}
	for range rounds {
		for p, r := range request {
			before := p.cpu(t)
			p.drive(t, r, n, status)
			used := (p.cpu(t) - before) / time.Duration(n)
			if old, ok := least[p]; !ok || used < old {
				least[p] = used
			}
		}
	}
	return least
}
