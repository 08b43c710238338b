package agent_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/agent"
	"certharbor.dev/certharbor/internal/agent/wiretest"
)

// rig is a device and its server.
type rig struct {
	t      *testing.T
	server *wiretest.Server
	clock  *wiretest.Clock
	dir    string
	out    *bytes.Buffer
	log    *syncBuffer
	agent  *agent.Agent
}

// syncBuffer is a buffer for several goroutines.
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

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, server: wiretest.New(t), clock: &wiretest.Clock{}, dir: t.TempDir(), out: &bytes.Buffer{}, log: &syncBuffer{}}
	r.server.AutoApprove = true
	r.open()
	t.Cleanup(func() { _ = r.agent.Close() })
	return r
}

// enrolled gives a rig whose device is registered.
func enrolled(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	if err := r.agent.Enroll(t.Context(), r.server.URL, "", wiretest.APIKey); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	r.agent, err = agent.Open(agent.Options{
		State: r.path("state"), Version: "1.2.3", Clock: r.clock, Out: r.out, Env: []string{"PATH=" + os.Getenv("PATH")},
		Log: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// restart is a new process: all that is not on disk is gone.
func (r *rig) restart() {
	r.t.Helper()
	if err := r.agent.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open()
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) read(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(r.path(name))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return string(text)
}

// configure writes an install-config of raw items; @/ is the rig's folder.
func (r *rig) configure(items ...string) {
	r.server.SetConfig(json.RawMessage(strings.ReplaceAll("["+strings.Join(items, ",")+"]", "@/", r.dir+"/")), "")
}

const (
	copyPair = `{"id":"pair","type":"copy","enabled":true,"depends_on":[],"ob_type":"cert","ob_id":5,"from":["private.key","fullchain.pem"],"to":["@/key.pem","@/cert.pem"],
		"cmd":"","cmd_argv":[],"timeout_ms":0,"run_as":"","env":{},"verify":{}}`
	copyOther = `{"id":"other","type":"copy","ob_type":"cert","ob_id":6,"from":["private.key","fullchain.pem"],"to":["@/other.key","@/other.pem"]}`
	reload    = `{"id":"reload","type":"exec","depends_on":["pair"],"cmd":"echo reloaded >> @/reload.log"}`
)

// serial gives the serial of the installed pair; "" when there is none.
func (r *rig) serial() string {
	r.t.Helper()
	key, cert := r.read("key.pem"), r.read("cert.pem")
	if key == "" && cert == "" {
		return ""
	}
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		r.t.Fatalf("key and certificate on disk: %v", err)
	}
	return pair.Leaf.SerialNumber.Text(16)
}

func (r *rig) reloads() int { return strings.Count(r.read("reload.log"), "reloaded") }

func (r *rig) once() error { return r.agent.Once(r.t.Context()) }

func (r *rig) mustOnce() {
	r.t.Helper()
	if err := r.once(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) status() *agent.Status {
	r.t.Helper()
	s, err := agent.ReadStatus(r.path("state"))
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// events gives the reported events of a type.
func (r *rig) events(kind string) []map[string]any {
	r.t.Helper()
	var list []map[string]any
	for _, raw := range r.server.Notified() {
		var e map[string]any
		if err := json.Unmarshal(raw, &e); err != nil {
			r.t.Fatal(err)
		}
		if e["type"] == kind {
			list = append(list, e)
		}
	}
	return list
}
