package issuance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/authdns"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
	"certharbor.dev/certharbor/internal/webhooks"
)

// world is a database with one user, an account at a CA and a webhook, and
// the processes that serve it.
type world struct {
	t       testing.TB
	db      *sqldb.DB
	keys    *seal.Keyring
	user    int64
	account int64
	options acme.Options
	change  func(*Service) // of every node that starts
	claims  []string       // directories whose certificates claim names
	proved  bool           // the policy about names
	records records        // TXT records that stand

	mu  sync.Mutex
	now func() time.Time
}

// node is one process.
type node struct {
	*Service
	w        *world
	mux      *web.Mux
	certs    *certs.Service
	names    *names.Service
	accounts *acmeaccounts.Service
	engine   *jobs.Engine
	pool     *acme.Pool
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func newWorld(t testing.TB, db *sqldb.DB, directoryURL, roots string) *world {
	t.Helper()
	keys, err := seal.New(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, db: db, keys: keys, now: time.Now, change: func(*Service) {}}
	w.options = acme.Options{AllowCIDRs: loopback, RequestTimeout: 5 * time.Second}
	w.user = w.addUser(seal.NewToken("owner", 6) + "@example.com")
	n := w.quiet()
	w.account = n.addAccount(directoryURL, roots)
	if _, _, err := n.Webhooks.(*webhooks.Service).Create(t.Context(), w.user, webhooks.Input{
		URL: "http://127.0.0.1:1/", Secret: "0123456789abcdef", Scope: map[string]any{"type": "all"},
	}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) addUser(email string) int64 {
	w.t.Helper()
	var id int64
	err := w.db.Writer().QueryRowContext(w.t.Context(), `INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
		VALUES ($1, '', '', '', 'ACTIVE', '[]', 0, 0) RETURNING id`, email).Scan(&id)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now()
}

// quiet makes a process whose background work does not run.
func (w *world) quiet() *node {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(testLog{w.t}, nil))
	trail := audit.New(w.time)
	n := &node{w: w, pool: acme.NewPool(w.options)}
	w.t.Cleanup(n.pool.Close)
	n.accounts = acmeaccounts.NewService(acmeaccounts.Deps{DB: w.db, Audit: trail, Keys: w.keys, ACME: n.pool, Now: w.time})
	stream := feed.NewService(feed.Deps{DB: w.db, Now: w.time})
	rules, err := names.Open(context.WithoutCancel(w.t.Context()), names.Deps{
		DB: w.db, Audit: trail, Keys: w.keys, Users: nobodyAdmin{}, Log: log, Now: w.time,
		Proved: w.proved, Directories: w.claims, Limiter: ratelimit.NewLimiter(w.db, w.time), Records: w.records, Reserved: names.Reserve([]string{"https://certs.example.net"}, nil),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	n.names = rules
	n.certs = certs.NewService(certs.Deps{DB: w.db, Audit: trail, Keys: w.keys, Accounts: n.accounts, Feed: stream, Names: rules, Log: log, Now: w.time})
	hooks := webhooks.NewService(webhooks.Deps{DB: w.db, Audit: trail, Keys: w.keys, Log: log, Now: w.time, Outbound: outbound.Options{AllowCIDRs: loopback}})
	n.Service = NewService(Deps{
		DB: w.db, Audit: trail, Keys: w.keys, Log: log, Now: w.time, Certs: n.certs, Accounts: n.accounts, Webhooks: hooks,
		Names: rules,
	})
	n.clock.settle = 0 // these tests set the clock
	n.backoff = func(int64, *acme.Problem) time.Duration { return time.Millisecond }
	w.change(n.Service)
	n.certs.SetIssuer(n.Service)
	registry := jobs.NewRegistry()
	hooks.Register(registry)
	n.Register(registry)
	if n.engine, err = jobs.New(w.t.Context(), w.db, registry, slog.New(slog.NewTextHandler(testLog{w.t}, &slog.HandlerOptions{Level: slog.LevelError}))); err != nil {
		w.t.Fatal(err)
	}
	hooks.UseJobs(n.engine)
	n.UseJobs(n.engine)
	n.mux = newMux()
	n.accounts.Mount(n.mux)
	n.certs.Mount(n.mux)
	n.Mount(n.mux)
	w.t.Cleanup(n.stop)
	return n
}

// start starts a process.
func (w *world) start() *node {
	w.t.Helper()
	n := w.quiet()
	if err := n.engine.Start(context.WithoutCancel(w.t.Context())); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// stop ends a process at once: what runs is cancelled.
func (n *node) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.engine.Stop(ctx) // says that it had to cancel
}

// records are the TXT records that stand, "name value".
type records map[string]bool

// Proof implements names.Records.
func (r records) Proof(_ context.Context, name, value string) (authdns.Finding, error) {
	return authdns.Finding{Stands: r[name+" "+value], Why: "No such record."}, nil
}

// nobodyAdmin has no administrators.
type nobodyAdmin struct{}

func (nobodyAdmin) Exists(context.Context, sqldb.Querier, int64) (bool, error) { return true, nil }

func (nobodyAdmin) IsAdmin(context.Context, sqldb.Querier, int64) (bool, error) { return false, nil }

// testLog writes a log into the test's while it runs.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Logf("%s", strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// newMux takes sessions "s=<user id>" and keys "ak_<grants as JSON>".
func newMux() *web.Mux {
	return web.New(web.Options{Log: slog.New(slog.DiscardHandler), Auth: web.Authenticator{
		Session: func(r *http.Request) (*access.Caller, error) {
			cookie, err := r.Cookie("s")
			if err != nil {
				return nil, nil //nolint:nilerr // no cookie, no caller
			}
			id, err := strconv.ParseInt(cookie.Value, 10, 64)
			return &access.Caller{Kind: access.KindSession, UserID: id, SessionID: 1}, err
		},
		Key: func(_ context.Context, token string) (*access.Caller, error) {
			c := &access.Caller{Kind: access.KindKey, UserID: 1, KeyID: 1}
			return c, json.Unmarshal([]byte(strings.TrimPrefix(token, "ak_")), &c.Grants)
		},
	}})
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) data(t testing.TB, into any) {
	t.Helper()
	envelope := struct {
		Data any `json:"data"`
	}{into}
	if err := json.Unmarshal([]byte(a.body), &envelope); err != nil || a.status >= 300 {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
}

// call sends a request as the user with this session, or with "Bearer …".
func (n *node) call(credential, method, path, body string) answer {
	n.w.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(n.w.t.Context(), method, path, reader)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(credential, "Bearer ") {
		r.Header.Set("Authorization", credential)
	} else {
		r.Header.Set("Cookie", "s="+credential)
	}
	recorder := httptest.NewRecorder()
	n.mux.ServeHTTP(recorder, r)
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
}

// do calls as the world's user on /apiv1/me.
func (n *node) do(method, path, body string) answer {
	n.w.t.Helper()
	return n.call(strconv.FormatInt(n.w.user, 10), method, "/apiv1/me"+path, body)
}

func (n *node) addAccount(directoryURL, roots string) int64 {
	n.w.t.Helper()
	body, _ := json.Marshal(map[string]any{"name": "test", "email": "ops@example.com", "provider": "custom", "directory_url": directoryURL, "ca_bundle_pem": roots})
	var account struct{ ID int64 }
	n.do("POST", "/acme-accounts", string(body)).data(n.w.t, &account)
	return account.ID
}

func (n *node) addCert(names ...string) int64 {
	n.w.t.Helper()
	body, _ := json.Marshal(map[string]any{"action": "create", "domain_name": names[0], "sans": names, "acct_id": n.w.account})
	var cert struct{ ID int64 }
	n.do("POST", "/certificates", string(body)).data(n.w.t, &cert)
	return cert.ID
}

func (n *node) cert(id int64) certs.Certificate {
	n.w.t.Helper()
	c, err := n.certs.Record(context.WithoutCancel(n.w.t.Context()), n.w.db.Reader(), n.w.user, id)
	if err != nil {
		n.w.t.Fatal(err)
	}
	return c
}

// trigger starts an attempt over HTTP.
func (n *node) trigger(certID int64, body string) Issuance {
	n.w.t.Helper()
	var i Issuance
	n.do("POST", fmt.Sprintf("/certificates/%d/issues", certID), body).data(n.w.t, &i)
	return i
}

func (n *node) issue(certID, id int64) Issuance {
	n.w.t.Helper()
	i, err := n.Get(context.WithoutCancel(n.w.t.Context()), n.w.user, certID, id)
	if err != nil {
		n.w.t.Fatal(err)
	}
	return i
}

// ended waits until the attempt is over.
func (n *node) ended(i Issuance) Issuance {
	n.w.t.Helper()
	eventually(n.w.t, func() bool {
		i = n.issue(i.CertRecordID, i.ID)
		return !open(i.Status)
	}, func() string { return fmt.Sprintf("%+v", i) })
	return i
}

// finished runs the attempt here, as the job engine would, until it is over.
func (n *node) finished(i Issuance) Issuance {
	n.w.t.Helper()
	var err error
	for range 10 {
		err = n.run(n.w.t.Context(), i.ID)
		if i = n.issue(i.CertRecordID, i.ID); !open(i.Status) {
			return i
		}
	}
	n.w.t.Fatalf("not over after ten runs: %v: %+v", err, i)
	return i
}

// eventually asks until the condition holds.
func eventually(t testing.TB, condition func() bool, state func() string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("nothing after 60 s: %s", state())
		}
	}
}

// count asks the database for a number.
func (w *world) count(query string, args ...any) int {
	w.t.Helper()
	var n int
	if err := w.db.Reader().QueryRowContext(context.WithoutCancel(w.t.Context()), query, args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// events counts the events in the outbox of one attempt.
func (w *world) events(id int64) int {
	return w.count("SELECT COUNT(*) FROM webhook_deliveries WHERE event = 'certificate.issued' AND issue_history_id = $1", id)
}

// pebble is a world with a real CA that validates through the node that
// validating holds.
func pebble(t testing.TB, db *sqldb.DB, options acmetest.Options) (*world, *acmetest.Server, *front) {
	t.Helper()
	ca := acmetest.Start(t, options)
	f := &front{}
	server := &http.Server{Handler: f, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(ca.HTTPListener) }()
	t.Cleanup(func() { _ = server.Close() })
	return newWorld(t, db, ca.DirectoryURL, ca.CABundlePEM), ca, f
}

// front is the listener on port 80, which outlives the processes behind it.
type front struct {
	mu   sync.Mutex
	next http.Handler
}

func (f *front) use(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = n.Challenges()
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	next := f.next
	f.mu.Unlock()
	if next == nil {
		http.NotFound(w, r)
		return
	}
	next.ServeHTTP(w, r)
}

// hostileWorld is a world with a CA that misbehaves when told.
func hostileWorld(t testing.TB, db *sqldb.DB) (*world, *hostile.CA) {
	t.Helper()
	ca := hostile.Start(t)
	return newWorld(t, db, ca.DirectoryURL, ca.CABundlePEM), ca
}

// issued tells whether a leaf is stored.
func (n *node) issued(id int64) bool {
	c := n.cert(id)
	return c.Issued()
}
