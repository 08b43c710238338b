package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mholt/acmez/v3"
	rfc8555 "github.com/mholt/acmez/v3/acme"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/issuance"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
	"certharbor.dev/certharbor/internal/webhooks"
)

// One certificate from a real CA that validates without sleeping: from POST
// issues until the history says SUCCESS, beside a loop on the bare ACME library
// that keeps nothing and polls every millisecond.
func BenchmarkIssueOne(b *testing.B) {
	const rounds = 30
	var oursMedian, bareMedian, oursCPU, bareCPU time.Duration
	for b.Loop() {
		w, bare := newIssuer(b), newBareACME(b, time.Millisecond)
		w.issue("warm.example.test")
		bare.issue(b, "warm.example.test")
		var oursTimes, bareTimes []time.Duration
		for i := range rounds { // alternately, so that both see the same machine
			u := measure(func() { w.issue(fmt.Sprintf("o%d.example.test", i)) })
			oursTimes, oursCPU = append(oursTimes, u.wall), oursCPU+u.cpu
			u = measure(func() { bare.issue(b, fmt.Sprintf("b%d.example.test", i)) })
			bareTimes, bareCPU = append(bareTimes, u.wall), bareCPU+u.cpu
		}
		slices.Sort(oursTimes)
		slices.Sort(bareTimes)
		oursMedian, bareMedian = oursTimes[rounds/2], bareTimes[rounds/2]
		w.stop()
	}
	n := float64(b.N * rounds)
	b.ReportMetric(float64(oursMedian.Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(bareMedian.Microseconds())/1000, "bare-median-ms")
	b.ReportMetric(float64(oursMedian)/float64(bareMedian), "times-bare(<=10)")
	b.ReportMetric(oursCPU.Seconds()*1000/n, "cpu-ms/op")
	b.ReportMetric(bareCPU.Seconds()*1000/n, "bare-cpu-ms/op")
	b.ReportMetric(0, "ns/op")
}

// 200 certificates, 8 at once, beside the bare library with its usual manners
// (it polls every 20 ms).
func BenchmarkIssueMany(b *testing.B) {
	const total, atOnce = 200, 8
	var ours, bareUsage usage
	for b.Loop() {
		w, bare := newIssuer(b), newBareACME(b, 20*time.Millisecond)
		w.issue("warm.example.test")
		bare.issue(b, "warm.example.test")
		bareUsage.add(measure(func() {
			inParallel(total, atOnce, func(i int) { bare.issue(b, fmt.Sprintf("b%d.example.test", i)) })
		}))
		ours.add(measure(func() {
			inParallel(total, atOnce, func(i int) { w.issue(fmt.Sprintf("o%d.example.test", i)) })
		}))
		w.stop()
	}
	n := float64(b.N * total)
	b.ReportMetric(n/ours.wall.Seconds(), "certs/s")
	b.ReportMetric(n/bareUsage.wall.Seconds(), "bare-certs/s")
	b.ReportMetric(bareUsage.wall.Seconds()/ours.wall.Seconds(), "times-bare(>=0.8)")
	b.ReportMetric(ours.cpu.Seconds()*1000/n, "cpu-ms/op")
	b.ReportMetric(bareUsage.cpu.Seconds()*1000/n, "bare-cpu-ms/op")
	b.ReportMetric(0, "ns/op")
}

func inParallel(total, atOnce int, do func(int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for i := next.Add(1); i <= int64(total); i = next.Add(1) {
				do(int(i))
			}
		})
	}
	group.Wait()
}

// bareACME is what a program without durability would do.
type bareACME struct {
	client  acmez.Client
	account rfc8555.Account
}

// memorySolver keeps the answers in memory.
type memorySolver struct{ answers sync.Map }

func (m *memorySolver) Present(_ context.Context, c rfc8555.Challenge) error {
	m.answers.Store(c.HTTP01ResourcePath(), c.KeyAuthorization)
	return nil
}

func (m *memorySolver) CleanUp(_ context.Context, c rfc8555.Challenge) error {
	m.answers.Delete(c.HTTP01ResourcePath())
	return nil
}

func (m *memorySolver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, _ := m.answers.Load(r.URL.Path)
	_, _ = fmt.Fprint(w, answer)
}

func newBareACME(b *testing.B, poll time.Duration) *bareACME {
	b.Helper()
	ca := acmetest.Start(b, acmetest.Options{})
	solver := &memorySolver{}
	serveOn(b, ca, solver)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca.CABundlePEM))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 16, ForceAttemptHTTP2: true}
	b.Cleanup(transport.CloseIdleConnections)
	bare := &bareACME{client: acmez.Client{
		Client:           &rfc8555.Client{Directory: ca.DirectoryURL, HTTPClient: &http.Client{Transport: transport}, PollInterval: poll},
		ChallengeSolvers: map[string]acmez.Solver{rfc8555.ChallengeTypeHTTP01: solver},
	}}
	var err error
	bare.account, err = bare.client.NewAccount(b.Context(), rfc8555.Account{PrivateKey: newECDSA(b), TermsOfServiceAgreed: true})
	if err != nil {
		b.Fatal(err)
	}
	return bare
}

func (bare *bareACME) issue(b *testing.B, name string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	if _, err := bare.client.ObtainCertificateForSANs(ctx, bare.account, newECDSA(b), []string{name}); err != nil {
		b.Error(err)
	}
}

func newECDSA(b *testing.B) *ecdsa.PrivateKey {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Error(err)
	}
	return key
}

func serveOn(b *testing.B, ca *acmetest.Server, h http.Handler) {
	b.Helper()
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(ca.HTTPListener) }()
	b.Cleanup(func() { _ = server.Close() })
}

// issuer is CertHarbor's issuance on a fresh SQLite database, as app wires it.
type issuer struct {
	b       *testing.B
	mux     *web.Mux
	engine  *jobs.Engine
	account int64
}

func newIssuer(b *testing.B) *issuer {
	b.Helper()
	keys, err := seal.New(seal.NewDataKey())
	if err != nil {
		b.Fatal(err)
	}
	ca := acmetest.Start(b, acmetest.Options{})
	db, trail, log := dbtest.SQLite(b), audit.New(time.Now), slog.New(slog.DiscardHandler)
	pool := acme.NewPool(acme.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	b.Cleanup(pool.Close)
	accounts := acmeaccounts.NewService(acmeaccounts.Deps{DB: db, Audit: trail, Keys: keys, ACME: pool, Now: time.Now})
	stream := feed.NewService(feed.Deps{DB: db, Now: time.Now})
	records := certs.NewService(certs.Deps{DB: db, Audit: trail, Keys: keys, Accounts: accounts, Feed: stream, Log: log, Now: time.Now})
	hooks := webhooks.NewService(webhooks.Deps{DB: db, Audit: trail, Keys: keys, Log: log, Now: time.Now})
	service := issuance.NewService(issuance.Deps{
		DB: db, Audit: trail, Keys: keys, Log: log, Now: time.Now, Certs: records, Accounts: accounts, Webhooks: hooks,
	})
	serveOn(b, ca, service.Challenges())
	registry := jobs.NewRegistry()
	hooks.Register(registry)
	service.Register(registry)
	w := &issuer{b: b}
	if w.engine, err = jobs.New(b.Context(), db, registry, log); err != nil {
		b.Fatal(err)
	}
	hooks.UseJobs(w.engine)
	service.UseJobs(w.engine)
	w.mux = web.New(web.Options{Log: log, Auth: web.Authenticator{Session: func(*http.Request) (*access.Caller, error) {
		return &access.Caller{Kind: access.KindSession, UserID: 1, SessionID: 1}, nil
	}}})
	accounts.Mount(w.mux)
	records.Mount(w.mux)
	service.Mount(w.mux)
	addUser(b, db)
	if err := w.engine.Start(context.WithoutCancel(b.Context())); err != nil {
		b.Fatal(err)
	}
	w.account = w.call("POST", "/acme-accounts", map[string]any{
		"name": "bench", "email": "ops@example.com", "provider": "custom", "directory_url": ca.DirectoryURL, "ca_bundle_pem": ca.CABundlePEM,
	}).ID
	return w
}

func addUser(b *testing.B, db *sqldb.DB) {
	b.Helper()
	_, err := db.Writer().ExecContext(b.Context(), `INSERT INTO users (id, email, name, country_of_residence, password, status, roles, created_at, updated_at)
		VALUES (1, 'bench@example.com', '', '', '', 'ACTIVE', '[]', 0, 0)`)
	if err != nil {
		b.Fatal(err)
	}
}

func (w *issuer) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.engine.Stop(ctx); err != nil {
		w.b.Error(err)
	}
}

// record is what the benchmark reads of any answer.
type record struct {
	ID           int64  `json:"id"`
	Status       string `json:"status"`
	ErrorMessage string `json:"error_message"`
}

func (w *issuer) call(method, path string, body any) record {
	text := ""
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			w.b.Error(err)
		}
		text = string(encoded)
	}
	r := httptest.NewRequest(method, "/apiv1/me"+path, strings.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	w.mux.ServeHTTP(recorder, r)
	var answer struct {
		Data record `json:"data"`
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || recorder.Code > 299 {
		w.b.Errorf("%s %s: %d %s", method, path, recorder.Code, recorder.Body)
	}
	return answer.Data
}

// issue makes a certificate record and has it issued.
func (w *issuer) issue(name string) {
	cert := w.call("POST", "/certificates", map[string]any{"action": "create", "domain_name": name, "acct_id": w.account})
	path := fmt.Sprintf("/certificates/%d/issues", cert.ID)
	attempt := w.call("POST", path, nil)
	for deadline := time.Now().Add(30 * time.Second); attempt.Status == "PENDING" || attempt.Status == "PROCESSING"; {
		if time.Now().After(deadline) {
			w.b.Errorf("%s is not issued after 30 s", name)
			return
		}
		time.Sleep(5 * time.Millisecond)
		attempt = w.call("GET", fmt.Sprintf("%s/%d", path, attempt.ID), nil)
	}
	if attempt.Status != "SUCCESS" {
		w.b.Errorf("%s: %+v", name, attempt)
	}
}
