package identity

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// factors are kept in a table of the test, so that they take part in
// transactions.
type factors struct{}

func (factors) HasPasskey(ctx context.Context, q sqldb.Querier, userID int64) (bool, error) {
	var n int64
	err := q.QueryRowContext(ctx, "SELECT COUNT(*) FROM test_factors WHERE user_id = $1 AND provider = 'passkey'", userID).Scan(&n)
	return n > 0, err
}

func (factors) Bindings(ctx context.Context, q sqldb.Querier, userID int64) (list []Binding, err error) {
	rows, err := q.QueryContext(ctx, "SELECT provider FROM test_factors WHERE user_id = $1 AND provider <> 'passkey' ORDER BY provider", userID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var b Binding
		if err := rows.Scan(&b.Provider); err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, rows.Err()
}

func (factors) Unbind(ctx context.Context, tx *sqldb.Tx, userID int64, provider string) error {
	result, err := tx.ExecContext(ctx, "DELETE FROM test_factors WHERE user_id = $1 AND provider = $2 AND provider <> 'passkey'", userID, provider)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); n == 0 || err != nil {
		return fault.NotFound("binding")
	}
	return nil
}

func withFactors(t *testing.T, db *sqldb.DB) *house {
	t.Helper()
	change(t, db, "CREATE TABLE test_factors (user_id BIGINT, provider TEXT)")
	h := build(t, db)
	h.SetFactors(factors{})
	return h
}

func (h *house) add(t *testing.T, db *sqldb.DB, userID int64, provider string) {
	t.Helper()
	change(t, db, "INSERT INTO test_factors VALUES ($1, $2)", userID, provider)
}

func TestRequireStepUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := withFactors(t, db)
		withPasskey := makeUser(t, h, "passkey@example.org")
		h.add(t, db, withPasskey, "passkey")
		federated := makeUser(t, h, "federated@example.org")
		setColumn(t, db, "password", "", federated)
		now := h.ms.Load()
		fresh, stale := now-(15*time.Minute).Milliseconds(), now-(15*time.Minute).Milliseconds()-1
		person := func(user int64, acr string, at int64, amr ...string) *access.Caller {
			return &access.Caller{Kind: access.KindSession, UserID: user, SessionID: 1, AMR: amr, ACR: acr, AuthTime: at}
		}
		for name, c := range map[string]struct {
			caller *access.Caller
			code   fault.Code
			acr    string
		}{
			"password, fresh":                     {person(h.ada, "aal1", fresh, "pwd"), 0, ""},
			"password, stale":                     {person(h.ada, "aal1", stale, "pwd"), fault.CodeStepUpRequired, "aal1"},
			"signed in through a provider":        {person(h.ada, "aal1", fresh, "fed"), fault.CodeStepUpRequired, "aal1"},
			"passkey, but only the password":      {person(withPasskey, "aal1", fresh, "pwd"), fault.CodeStepUpRequired, "aal2"},
			"passkey, fresh":                      {person(withPasskey, "aal2", fresh, "hwk", "user"), 0, ""},
			"passkey, stale":                      {person(withPasskey, "aal2", stale, "hwk", "user"), fault.CodeStepUpRequired, "aal2"},
			"the passkey is gone, fresh":          {person(h.ada, "aal2", fresh, "hwk"), 0, ""},
			"no password, fresh from a provider":  {person(federated, "aal1", fresh, "fed"), 0, ""},
			"no password, stale":                  {person(federated, "aal1", stale, "fed"), fault.CodeStepUpRequired, "aal1"},
			"a key":                               {&access.Caller{Kind: access.KindKey, UserID: h.ada, KeyID: 1}, 0, ""},
			"a device":                            {&access.Caller{Kind: access.KindDevice, UserID: h.ada}, 0, ""},
			"nobody":                              {nil, fault.CodeUnauthorized, ""},
			"a password entered before a passkey": {person(h.ada, "aal2", stale, "hwk", "pwd"), fault.CodeStepUpRequired, "aal1"},
		} {
			ctx := t.Context()
			if c.caller != nil {
				ctx = access.With(ctx, c.caller)
			}
			err := h.RequireStepUp(ctx, db.Reader())
			if c.code == 0 && err != nil || c.code != 0 && !fault.Is(err, c.code) {
				t.Errorf("%s: %v, want %d", name, err, c.code)
			}
			if c.acr != "" && (fault.As(err).Params["acr"] != c.acr || fault.As(err).Key != "STEP_UP_REQUIRED") {
				t.Errorf("%s: %+v", name, fault.As(err))
			}
		}
	})
}

// TestStepUpByPassword: the session is fresh again under another id.
func TestStepUpByPassword(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := withFactors(t, db)
		pair := h.signIn(t)
		h.advance(16 * time.Minute)
		stepUp := func(password string) *http.Response {
			return h.call("POST", "/auth/step-up", `{"password":"`+password+`"}`, cookie(pair)).Result()
		}
		change := func(options ...func(*http.Request)) (int, string) {
			w := h.call("POST", "/apiv1/me/password", `{"new_password":"`+wrongPas+`"}`, options...)
			return w.Code, w.Body.String()
		}
		if code, body := change(cookie(pair)); code != http.StatusForbidden || !strings.Contains(body, "STEP_UP_REQUIRED") {
			t.Errorf("without a fresh proof: %d %s", code, body)
		}
		if r := stepUp(wrongPas); r.StatusCode != http.StatusUnauthorized || r.Header.Get("Set-Cookie") != "" {
			t.Errorf("wrong password: %d", r.StatusCode)
		}
		r := stepUp(adaPass)
		fresh, _, _ := strings.Cut(r.Header.Get("Set-Cookie"), ";")
		if r.StatusCode != http.StatusOK || authenticated(t, h, pair) || !authenticated(t, h, fresh) {
			t.Fatalf("%d, cookie %q", r.StatusCode, fresh)
		}
		if code, body := change(cookie(fresh)); code != http.StatusNoContent {
			t.Errorf("afterwards: %d %s", code, body)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action IN ('session.step_up', 'session.step_up_refused') AND user_id = $1", h.ada); n != 2 {
			t.Errorf("%d audit entries", n)
		}
	})
}

func TestStepUpRefusals(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := withFactors(t, db)
		refused(t, h.call("POST", "/auth/step-up", `{"password":"x"}`), 401, 5018)
		pair := h.signIn(t)
		for range 10 {
			refused(t, h.call("POST", "/auth/step-up", `{"password":"x"}`, cookie(pair)), 401, 5018)
		}
		refused(t, h.call("POST", "/auth/step-up", `{"password":"`+adaPass+`"}`, cookie(pair)), 429, 5013)
		refused(t, h.login(ada, adaPass), 429, 5013) // one limit for both doors
		h.advance(15 * time.Minute)
		h.add(t, db, h.ada, "passkey")
		refused(t, h.call("POST", "/auth/step-up", `{"password":"`+adaPass+`"}`, cookie(pair)), 403, 5034, `"acr":"aal2"`)
		setColumn(t, db, "password", "", h.ada)
		refused(t, h.call("POST", "/auth/step-up", `{"password":"`+adaPass+`"}`, cookie(pair)), 409, 5030)
		refused(t, h.call("POST", "/auth/step-up", `{"password":""}`, cookie(pair)), 400, 5000, "password")
	})
}

// TestChangePassword: the other sessions end, this one gets another id.
func TestChangePassword(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := withFactors(t, db)
		elsewhere, pair := h.signIn(t), h.signIn(t)
		path := fmt.Sprintf("/apiv1/users/%d/password", h.ada)
		refused(t, h.call("POST", path, `{"new_password":"short"}`, cookie(pair)), 400, 5000, "new_password")
		w := h.call("POST", path, `{"new_password":"`+wrongPas+`"}`, cookie(pair))
		fresh, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
		if w.Code != http.StatusNoContent || authenticated(t, h, pair) || authenticated(t, h, elsewhere) || !authenticated(t, h, fresh) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if letter := one(t, h.work(t)); letter.Kind != "password-changed" || letter.To != ada {
			t.Errorf("%+v", letter)
		}
		refused(t, h.login(ada, adaPass), 401, 5018)
		setColumn(t, db, "email", "", h.ada)
		refused(t, h.call("POST", path, `{"new_password":"`+adaPass+`"}`, cookie(fresh)), 409, 5030)
	})
}

// TestTheLastWayInStays: also when two are removed at once.
func TestTheLastWayInStays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := withFactors(t, db)
		pair := h.signIn(t)
		ok(t, h.call("GET", "/auth/third-party-bindings", "", cookie(pair)), `{"data":[]}`)
		for _, provider := range []string{"github", "weixin", "oidc"} {
			h.add(t, db, h.ada, provider)
		}
		remove := func(provider string) int {
			return h.call("DELETE", "/auth/third-party-bindings/"+provider, "", cookie(pair)).Code
		}
		if got := []int{remove("gitlab"), remove("oidc")}; !slices.Equal(got, []int{http.StatusNotFound, http.StatusNoContent}) {
			t.Errorf("%v", got)
		}
		setColumn(t, db, "password", "", h.ada)
		codes := make([]int, 2)
		var wg sync.WaitGroup
		for i, provider := range []string{"github", "weixin"} {
			wg.Go(func() { codes[i] = remove(provider) })
		}
		wg.Wait()
		slices.Sort(codes)
		if !slices.Equal(codes, []int{http.StatusNoContent, http.StatusConflict}) {
			t.Errorf("two removals at once: %v", codes)
		}
		h.add(t, db, h.ada, "passkey")
		left := decode[[]Binding](t, h.call("GET", "/auth/third-party-bindings", "", cookie(pair)))
		if len(left) != 1 {
			t.Fatalf("%+v", left)
		}
		refused(t, h.call("DELETE", "/auth/third-party-bindings/"+left[0].Provider, "", cookie(pair)), 403, 5034) // there is a passkey now
		profile := decode[profileAnswer](t, h.call("GET", "/auth/profile", "", cookie(pair)))
		if profile.HasPassword || !profile.HasPasskey || len(profile.Bindings) != 1 {
			t.Errorf("%+v", profile)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action = 'user.unbind' AND user_id = $1", h.ada); n != 2 {
			t.Errorf("%d audit entries", n)
		}
	})
}
