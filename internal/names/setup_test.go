package names

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/authdns"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// env is the area on a database with three users, of whom carol is an
// administrator.
type env struct {
	t   testing.TB
	db  *sqldb.DB
	s   *Service
	now atomic.Int64

	mu        sync.Mutex
	records   map[string]bool
	silent    map[string]bool // records that cannot be looked up
	stale     bool            // the caller's proof
	past      []Success
	withdrawn []string
	judged    []int64
	letters   []string
}

const directory = "https://ca.example.net/directory"

func newEnv(t testing.TB, db *sqldb.DB, change ...func(*Deps)) *env {
	t.Helper()
	e := &env{t: t, db: db, records: map[string]bool{}, silent: map[string]bool{}}
	e.now.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
	for _, id := range []int64{alice, bob, carol} {
		e.exec(`INSERT INTO users (id, email, name, country_of_residence, password, status, roles, created_at, updated_at)
			VALUES ($1, $2, '', '', '', 'ACTIVE', '[]', 0, 0) ON CONFLICT (id) DO NOTHING`, id, fmt.Sprintf("u%d@example.com", id))
	}
	e.s = e.node(change...)
	return e
}

// node is one more process on the database.
func (e *env) node(change ...func(*Deps)) *Service {
	e.t.Helper()
	keys, err := seal.New(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		e.t.Fatal(err)
	}
	now := func() time.Time { return time.UnixMilli(e.now.Load()) }
	d := Deps{
		DB: e.db, Audit: audit.New(now), Keys: keys, Users: e, Now: now, Directories: []string{directory},
		Reserved: Reserve([]string{"https://certs.example.org"}, nil), Limiter: ratelimit.NewLimiter(e.db, now), StepUp: e, Records: e,
		Certificates: e, Attempts: e, Tell: e.tell,
	}
	for _, c := range change {
		c(&d)
	}
	s, err := Open(e.t.Context(), d)
	if err != nil {
		e.t.Fatal(err)
	}
	s.UseJobs(e)
	return s
}

// IsAdmin implements Users.
func (e *env) IsAdmin(_ context.Context, _ sqldb.Querier, userID int64) (bool, error) {
	return userID == carol, nil
}

// Exists implements Users.
func (e *env) Exists(_ context.Context, _ sqldb.Querier, userID int64) (bool, error) {
	return userID <= carol, nil
}

// RequireStepUp implements StepUp.
func (e *env) RequireStepUp(context.Context, sqldb.Querier) error {
	if e.stale {
		return &fault.Error{Code: fault.CodeStepUpRequired, Key: "STEP_UP_REQUIRED", What: "Sign in again."}
	}
	return nil
}

// Proof implements Records: the records that stand, "name value".
func (e *env) Proof(_ context.Context, name, value string) (authdns.Finding, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.silent[name] {
		return authdns.Finding{}, &authdns.ErrUnknown{What: "1 of 2 name servers gave no answer that counts.", Err: context.DeadlineExceeded}
	}
	return authdns.Finding{Stands: e.records[name+" "+value], Why: "No such record."}, nil
}

// set puts the user's record for the name there, or takes it away.
func (e *env) set(userID int64, name string, stands bool) {
	r := e.s.record(userID, name)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.records[r.Name+" "+r.Value] = stands
}

// Judge implements Certificates.
func (e *env) Judge(context.Context, int64, string) error { return nil }

// StillValid implements Certificates.
func (e *env) StillValid(_ context.Context, userID int64, name string) ([]ValidCertificate, error) {
	return []ValidCertificate{{Names: []string{name}, SerialNumber: strconv.FormatInt(userID, 10)}}, nil
}

// Withdraw implements Attempts.
func (e *env) Withdraw(_ context.Context, _ *sqldb.Tx, domain string) error {
	e.withdrawn = append(e.withdrawn, domain)
	return nil
}

// Past implements Attempts.
func (e *env) Past(_ context.Context, each func(Success)) error {
	for _, old := range e.past {
		each(old)
	}
	return nil
}

// Insert implements Inserter.
func (e *env) Insert(_ context.Context, _ *sqldb.Tx, args jobs.Args, _ jobs.Options) error {
	e.judged = append(e.judged, args.(judgeArgs).UserID)
	return nil
}

func (e *env) tell(_ context.Context, _ *sqldb.Tx, userID int64, kind string, _ mail.Letter) error {
	e.letters = append(e.letters, fmt.Sprintf("%d %s", userID, kind))
	return nil
}

func (e *env) exec(query string, args ...any) {
	e.t.Helper()
	if _, err := e.db.Writer().ExecContext(context.Background(), query, args...); err != nil {
		e.t.Fatalf("%s: %v", query, err)
	}
}

func (e *env) tx(f func(tx *sqldb.Tx) error) error {
	return e.db.InTx(context.WithoutCancel(e.t.Context()), f)
}

// attempt makes a row that claims may hang on.
func (e *env) attempt(userID int64) int64 {
	e.t.Helper()
	var certID, id int64
	row := e.db.Writer().QueryRowContext(e.t.Context(), `INSERT INTO certificates (user_id, public_id, origin, domain_name, sans, organization,
		organizational_unit, country, state, locality, key_algorithm, policy, next_policy, server_decrypt_export, challenge, auto_renew,
		renew_before_days, renewal_window, verified, serial_number, fingerprint_sha256, issuer, self_signed, not_before, not_after, revoked_at,
		revoke_reason, next_renewal_at, last_issue_id, last_issue_status, last_issue_at, created_at, updated_at)
		VALUES ($1, $2, 'create', 'x', '[]', '', '', '', '', '', 'ECDSA', 'HYBRID', '', FALSE, 'http-01', TRUE, 0, '', FALSE, '', '', '', FALSE,
		0, 0, 0, 0, 0, 0, '', 0, 0, 0) RETURNING id`, userID, seal.NewToken("", 9))
	if err := row.Scan(&certID); err != nil {
		e.t.Fatal(err)
	}
	row = e.db.Writer().QueryRowContext(e.t.Context(), `INSERT INTO issuances (user_id, cert_id, attempt_number, status, cause, acct_id, challenge,
		names, name_set, validity_seconds, replaces, order_url, orders, registrations, error_message, step, step_since, tries, version, holder,
		lease_until, due_at, started_at, completed_at)
		VALUES ($1, $2, 1, 'PROCESSING', 'manual', 1, 'http-01', '[]', $3, 0, '', '', 0, 0, '', 'finalize', 0, 0, 0, '', 0, 0, 0, 0) RETURNING id`,
		userID, certID, []byte{1})
	if err := row.Scan(&id); err != nil {
		e.t.Fatal(err)
	}
	return id
}

// finalize is an attempt of the user that is about to be finalised.
func (e *env) finalize(s *Service, userID int64, names ...string) (id int64, err error) {
	e.t.Helper()
	id = e.attempt(userID)
	return id, e.tx(func(tx *sqldb.Tx) error {
		return s.Finalize(context.Background(), tx, Attempt{
			Order: Order{UserID: userID, Names: names}, IssuanceID: id, Directory: directory, Validated: names,
		})
	})
}

// succeed is an attempt that brings a certificate.
func (e *env) succeed(userID int64, names ...string) {
	e.t.Helper()
	id, err := e.finalize(e.s, userID, names...)
	if err == nil {
		err = e.tx(func(tx *sqldb.Tx) error { return e.s.Issued(context.Background(), tx, id) })
	}
	if err != nil {
		e.t.Fatalf("user %d, %v: %v", userID, names, err)
	}
}

// may asks, and returns the key of the refusal, "" for none.
func (e *env) may(userID int64, name string) string {
	e.t.Helper()
	return keyOf(e.t, e.tx(func(tx *sqldb.Tx) error {
		return e.s.MayOrder(context.Background(), tx, Order{UserID: userID, Names: []string{name}})
	}))
}

func keyOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	f := fault.As(err)
	if f == nil {
		t.Fatal(err)
	}
	return f.Key
}

// want fails unless the user gets this refusal for each of the names.
func (e *env) want(userID int64, key string, list ...string) {
	e.t.Helper()
	for _, name := range list {
		if got := e.may(userID, name); got != key {
			e.t.Errorf("user %d, %s: %q, want %q", userID, name, got, key)
		}
	}
}

// actions lists what the user's audit log says, oldest first.
func (e *env) actions(userID int64) []string {
	e.t.Helper()
	rows, err := e.db.Reader().QueryContext(context.Background(), "SELECT action FROM audit_log WHERE user_id = $1 ORDER BY lane, seq", userID)
	if err != nil {
		e.t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var action string
		if err := rows.Scan(&action); err != nil {
			e.t.Fatal(err)
		}
		if !slices.Contains([]string{"audit.begin"}, action) {
			list = append(list, action)
		}
	}
	if err := rows.Err(); err != nil {
		e.t.Fatal(err)
	}
	return list
}
