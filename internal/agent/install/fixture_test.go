package install_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent/install"
	"certharbor.dev/certharbor/internal/agent/material"
	"certharbor.dev/certharbor/internal/agent/statedir"
	"certharbor.dev/certharbor/internal/agent/wiretest"
)

// record makes a self-signed certificate with its key in plaintext form.
func record(t *testing.T, id, serial int64) material.Record {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a.test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return material.Record{ID: id, DomainName: "a.test", Cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Sealed: material.Sealed{EncScheme: "plaintext", PrivateKeyDERB64: base64.StdEncoding.EncodeToString(keyDER)}}
}

func supply(t *testing.T, recs ...material.Record) install.Supply {
	t.Helper()
	s := install.Supply{Objects: map[install.Ref]*material.Object{}, Errors: map[install.Ref]error{}, Waiting: map[install.Ref]bool{}}
	for _, rec := range recs {
		o, err := material.Certificate(material.DeviceKey{}, rec, "")
		if err != nil {
			t.Fatal(err)
		}
		s.Objects[install.Ref{Kind: "cert", ID: rec.ID}] = o
	}
	return s
}

// rig is an engine with a folder for its targets. The reload command appends a
// digest of the installed files to reload.log, and fails while that digest is
// not in the file allowed (if that exists).
type rig struct {
	t      *testing.T
	engine *install.Engine
	clock  *wiretest.Clock
	dir    string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, clock: &wiretest.Clock{}, dir: t.TempDir()}
	r.restart()
	return r
}

// restart forgets everything that is not on disk.
func (r *rig) restart() {
	r.t.Helper()
	state, err := statedir.Open(filepath.Join(r.dir, "state"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.engine = &install.Engine{State: state, Clock: r.clock, Log: slog.New(slog.DiscardHandler), Env: []string{"PATH=" + os.Getenv("PATH")}}
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

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// config parses items, replacing @ in paths by the rig's folder.
func (r *rig) config(items, script string) install.Config {
	r.t.Helper()
	text, err := json.Marshal(script)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg, err := install.Parse([]byte(strings.ReplaceAll(`{"version":1,"installs":[`+items+`],"after_update_script":`+string(text)+`}`, "@/", r.dir+"/")))
	if err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

const (
	copyPair = `{"id":"pair","type":"copy","ob_type":"cert","ob_id":5,"from":["private.key","fullchain.pem"],"to":["@/key.pem","@/cert.pem"]}`
	// The digest is made first, so that the log line tells what the command saw.
	reloadText = `sum=$(cat @/key.pem @/cert.pem 2>/dev/null | sha256sum); echo $sum >> @/reload.log; [ ! -e @/allowed ] || grep -q \"$sum\" @/allowed`
	reload     = `{"id":"reload","type":"exec","cmd":"` + reloadText + `","depends_on":["pair"]}`
)

func (r *rig) apply(cfg install.Config, in install.Supply) map[string]install.Result {
	r.t.Helper()
	return r.applyWith(cfg, in, install.Options{})
}

func (r *rig) applyWith(cfg install.Config, in install.Supply, opt install.Options) map[string]install.Result {
	r.t.Helper()
	results, err := r.engine.Apply(r.t.Context(), cfg, in, opt)
	if err != nil {
		r.t.Fatal(err)
	}
	byID := map[string]install.Result{}
	for _, res := range results {
		byID[res.ItemID] = res
	}
	return byID
}

// want fails the test unless the items have these statuses ("id:status ...").
func (r *rig) want(got map[string]install.Result, want string) {
	r.t.Helper()
	for pair := range strings.FieldsSeq(want) {
		id, status, _ := strings.Cut(pair, ":")
		if got[id].Status != status {
			r.t.Errorf("item %s is %q (%s), want %s", id, got[id].Status, got[id].Error, status)
		}
	}
}

// serial gives the serial of the installed pair, and fails the test when key
// and certificate do not match; "" when neither is there.
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

func (r *rig) reloads() []string {
	return strings.Fields(strings.ReplaceAll(r.read("reload.log"), " -", ""))
}

// clean fails the test when anything is left behind beside the known files.
func (r *rig) clean() {
	r.t.Helper()
	left, err := filepath.Glob(r.path(".certharbor-*"))
	if err != nil || len(left) > 0 {
		r.t.Errorf("left behind: %v %v", left, err)
	}
	if _, err := os.Stat(r.path("state/journal.json")); err == nil {
		r.t.Error("a journal is left behind")
	}
}
