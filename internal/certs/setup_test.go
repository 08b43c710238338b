package certs

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// The rows that every test finds: two users, each with an account and devices.
const (
	alice, bob                     = int64(1), int64(2)
	aliceAccount, bobAccount       = int64(11), int64(12)
	device1, device2, bobsDevice   = int64(21), int64(22), int64(23)
	publicID1, publicID2, publicID = "0000aaaa-0000-0000-0000-000000000021", "0000aaaa-0000-0000-0000-000000000022", "0000aaaa-0000-0000-0000-0000000000%d"
)

// env is the area on a database, with callers of every kind.
type env struct {
	t       testing.TB
	db      *sqldb.DB
	s       *Service
	mux     *web.Mux
	issuer  *fakeIssuer
	devices map[int64]*ecdh.PrivateKey
	keys    map[string][]access.Grant // API keys by token
	revoked atomic.Bool               // all API keys, after they were let in
	now     atomic.Int64              // Unix ms
	asked   []names.Order             // of the rules about names
	missing []string                  // what they say
	refused error
}

func newEnv(t testing.TB, db *sqldb.DB) *env {
	t.Helper()
	e := &env{t: t, db: db, issuer: &fakeIssuer{}, devices: map[int64]*ecdh.PrivateKey{}, keys: map[string][]access.Grant{}}
	e.now.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
	now := func() time.Time { return time.UnixMilli(e.now.Load()) }
	ring, err := seal.New(seal.NewDataKey())
	if err != nil {
		t.Fatal(err)
	}
	stream := feed.NewService(feed.Deps{DB: db, Now: now})
	t.Cleanup(stream.Close)
	e.s = NewService(Deps{
		DB: db, Audit: audit.New(now), Keys: ring, Now: now, Feed: stream, APIKeys: e, StepUp: e, Names: nameRules{e},
		Accounts: acmeaccounts.NewService(acmeaccounts.Deps{DB: db, Now: now}),
		Devices:  devices.NewService(devices.Deps{DB: db, Now: now}),
	})
	e.s.SetIssuer(e.issuer)
	e.mux = web.New(web.Options{Log: slog.New(slog.DiscardHandler), Auth: e.authenticator()})
	e.s.Mount(e.mux)
	e.seed()
	return e
}

// nameRules answers what the test put there.
type nameRules struct{ *env }

// Missing implements NameRules.
func (e nameRules) Missing(_ context.Context, _ *sqldb.Tx, o names.Order) ([]string, error) {
	e.asked = append(e.asked, o)
	return e.missing, e.refused
}

// Check implements NameRules.
func (e nameRules) Check(_ context.Context, _ sqldb.Querier, o names.Order) error {
	e.asked = append(e.asked, o)
	return e.refused
}

// RequireStepUp implements StepUp: a session is good for 15 minutes.
func (e *env) RequireStepUp(ctx context.Context, _ sqldb.Querier) error {
	if c := access.From(ctx); c.Kind != access.KindSession || e.now.Load()-c.AuthTime <= (15*time.Minute).Milliseconds() {
		return nil
	}
	return &fault.Error{Code: fault.CodeStepUpRequired, Key: "STEP_UP_REQUIRED", What: "Sign in again."}
}

func (e *env) seed() {
	for _, user := range []int64{alice, bob} {
		e.exec(`INSERT INTO users (id, email, name, country_of_residence, password, status, roles, created_at, updated_at)
			VALUES ($1, $2, '', '', '', 'ACTIVE', '[]', 0, 0)`, user, fmt.Sprintf("u%d@example.com", user))
		e.exec(`INSERT INTO acme_accounts (id, user_id, name, email, provider, directory_url, ca_bundle_pem, ca_id, eab_kid, account_url,
			leaf_key_algorithm, leaf_rsa_bits, leaf_ec_curve, cert_valid_seconds, profile, created_at, updated_at)
			VALUES ($1, $2, 'a', '', 'letsencrypt', '', '', 0, '', '', '', 0, '', 0, '', 0, 0)`, user+10, user)
	}
	for id, user := range map[int64]int64{device1: alice, device2: alice, bobsDevice: bob} {
		key := newDeviceKey(e.t)
		e.devices[id] = key
		e.exec(`INSERT INTO devices (id, user_id, public_id, public_key, status, session_no, name, platform, model, app_version,
			agent, agent_version, ip, user_agent, created_at, updated_at, last_seen_at)
			VALUES ($1, $2, $3, $4, 'ACTIVE', 1, '', '', '', '', '', '', '', '', 0, 0, 0)`,
			id, user, fmt.Sprintf(publicID, id), key.PublicKey().Bytes())
	}
}

func newDeviceKey(t testing.TB) *ecdh.PrivateKey {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Check implements Keys.
func (e *env) Check(context.Context, *sqldb.Tx, int64) error {
	if e.revoked.Load() {
		return fault.Unauthorized("The API key is revoked.")
	}
	return nil
}

// authenticator takes "X-User: 1" for a session, "ak_…" of e.keys, and a
// device's id as its token.
func (e *env) authenticator() web.Authenticator {
	return web.Authenticator{
		Session: func(r *http.Request) (*access.Caller, error) {
			id, err := strconv.ParseInt(r.Header.Get("X-User"), 10, 64)
			if err != nil {
				return nil, nil //nolint:nilerr // no session
			}
			return &access.Caller{Kind: access.KindSession, UserID: id, SessionID: 5, AuthTime: e.now.Load() - int64(len(r.Header.Get("X-Stale")))*time.Hour.Milliseconds()}, nil
		},
		Key: func(_ context.Context, token string) (*access.Caller, error) {
			grants, ok := e.keys[token]
			if !ok {
				return nil, fault.Unauthorized("No such key.")
			}
			return &access.Caller{Kind: access.KindKey, UserID: alice, KeyID: 3, Grants: grants}, nil
		},
		Device: func(_ context.Context, token string) (*access.Caller, error) {
			id, err := strconv.ParseInt(token, 10, 64)
			if err != nil {
				return nil, fault.Unauthorized("No such device.")
			}
			user := alice
			if id == bobsDevice {
				user = bob
			}
			return &access.Caller{Kind: access.KindDevice, UserID: user, DeviceID: id}, nil
		},
	}
}

// grant makes an API key of alice's: scope, object, then actions.
func (e *env) grant(token, scope string, object any, actions ...string) string {
	e.keys[token] = append(e.keys[token], access.Grant{Scope: scope, Object: fmt.Sprint(object), Actions: actions})
	return token
}

func (e *env) exec(query string, args ...any) {
	e.t.Helper()
	if _, err := e.db.Writer().ExecContext(context.Background(), query, args...); err != nil {
		e.t.Fatalf("%s: %v", query, err)
	}
}

func (e *env) count(query string, args ...any) (n int64) {
	e.t.Helper()
	if err := e.db.Reader().QueryRowContext(context.Background(), query, args...).Scan(&n); err != nil {
		e.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// response is an answer, decoded as far as it is JSON.
type response struct {
	*httptest.ResponseRecorder
	body struct {
		Data  json.RawMessage
		Meta  *web.Meta
		Error struct {
			Code int
			Key  string
			What string
		}
	}
}

// call sends a request for a user (a number), an API key (ak_…) or a device
// (dev 21). Paths begin behind /apiv1.
func (e *env) call(who any, line, body string) *response {
	e.t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r := httptest.NewRequestWithContext(context.Background(), method, "/apiv1"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	switch who := who.(type) {
	case int64:
		r.Header.Set("X-User", strconv.FormatInt(who, 10))
	case staleUser:
		r.Header.Set("X-User", strconv.FormatInt(int64(who), 10))
		r.Header.Set("X-Stale", "x")
	case deviceToken:
		r.Header.Set("Authorization", "Bearer "+strconv.FormatInt(int64(who), 10))
	case string:
		r.Header.Set("Authorization", "Bearer "+who)
	}
	w := &response{ResponseRecorder: httptest.NewRecorder()}
	e.mux.ServeHTTP(w, r)
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &w.body); err != nil {
			e.t.Fatalf("%s: %v in %s", line, err, w.Body)
		}
	}
	return w
}

type (
	staleUser   int64 // a session that is an hour old
	deviceToken int64
)

// want fails unless the answer has the status and, for failures, the code.
func (w *response) want(t testing.TB, status int, code fault.Code) *response {
	t.Helper()
	if w.Code != status || w.body.Error.Code != int(code) {
		t.Errorf("%d/%d, want %d/%d: %s", w.Code, w.body.Error.Code, status, code, w.Body)
	}
	return w
}

func (w *response) record(t testing.TB) Certificate {
	t.Helper()
	var c Certificate
	if err := json.Unmarshal(w.body.Data, &c); err != nil || w.Code >= 300 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return c
}

// create makes a certificate of alice's; extra are further members of the body.
func (e *env) create(extra string) Certificate {
	e.t.Helper()
	body := `{"action":"create","domain_name":"www.example.com","sans":["www.example.com","api.example.com"],"acct_id":11` + extra + `}`
	return e.call(alice, "POST /me/certificates", body).want(e.t, http.StatusCreated, 0).record(e.t)
}

// issue stores a fresh leaf and key as issuance does, and gives the key.
func (e *env) issue(id int64) (keyDER []byte) {
	e.t.Helper()
	in := e.issued(id)
	err := e.db.InTx(context.Background(), func(tx *sqldb.Tx) error {
		_, err := e.s.Store(context.Background(), tx, in)
		return err
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return in.KeyDER
}

// issued makes what a CA would answer for the record.
func (e *env) issued(id int64) Issued {
	e.t.Helper()
	c, err := e.s.Record(context.Background(), e.db.Reader(), alice, id)
	if err != nil {
		e.t.Fatal(err)
	}
	_, keyDER, err := e.s.CSRFor(context.Background(), e.db.Reader(), c)
	if err != nil {
		e.t.Fatal(err)
	}
	key, err := ParseKey(keyDER)
	if err != nil {
		e.t.Fatal(err)
	}
	ca := newCA(e.t, "CA", nil)
	return Issued{CertID: id, IssuanceID: 7, Chain: Chain{Leaf: ca.leaf(e.t, key, c.Names().All()...), Issuers: nil}, KeyDER: keyDER}
}
