package identity

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func (h *house) setUp(token, email, password string) *httptest.ResponseRecorder {
	body, _ := json.Marshal(map[string]string{"token": token, "email": email, "password": password}) // strings always encode
	return h.call("POST", "/auth/setup", string(body))
}

func token(t *testing.T, h *house) string {
	t.Helper()
	secret, err := h.SetupToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestSetup(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		if secret := token(t, h); secret != "" {
			t.Fatal("a link although there is a user")
		}
		deleteUser(t, db, h.ada)
		h.signUp(t, "stranger@example.org", wrongPas)
		h.signUp(t, ada, wrongPas)
		first, second := token(t, h), token(t, h) // two nodes
		if first == second || len(first) != tokenLength || number(t, db, "SELECT COUNT(*) FROM setup_tokens WHERE token_hash = $1", seal.HashToken(first)) != 1 {
			t.Fatalf("%q, %q", first, second)
		}
		h.hashes.Store(0)
		for _, wrong := range []string{"", "x", strings.Repeat("A", tokenLength), first[1:] + "A"} {
			refused(t, h.setUp(wrong, ada, adaPass), 401, 5018)
		}
		refused(t, h.setUp(first, "no address", adaPass), 400, 5000, "email")
		refused(t, h.setUp(first, ada, "weak"), 400, 5000, "password")
		if h.hashes.Load() != 0 {
			t.Error("a stranger made us hash")
		}
		// Of many uses, of both links, one succeeds.
		answers := make([]*httptest.ResponseRecorder, 12)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = h.setUp([]string{first, second}[i%2], ada, adaPass) })
		}
		wg.Wait()
		var won *httptest.ResponseRecorder
		for _, w := range answers {
			if w.Code == http.StatusOK && won == nil {
				won = w
			} else {
				refused(t, w, 401, 5018)
			}
		}
		if won == nil {
			t.Fatal("none succeeded")
		}
		pair, _, _ := strings.Cut(won.Header().Get("Set-Cookie"), ";")
		user, err := h.FindUser(t.Context(), ada)
		if err != nil || len(user.Roles) != 1 || user.Roles[0] != RoleAdmin || user.Status != StatusActive || !authenticated(t, h, pair) {
			t.Errorf("%+v, %v", user, err)
		}
		for _, action := range []string{"user.create", "user.setup", "session.sign_in"} {
			if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action = $1 AND user_id = $2", action, user.ID); n != 1 {
				t.Errorf("%s: %d entries", action, n)
			}
		}
		if n := number(t, db, "SELECT COUNT(*) FROM setup_tokens"); n != 0 {
			t.Errorf("%d links are left", n)
		}
		refused(t, h.login(ada, wrongPas), 401, 5018)
	})
}

// TestSetupLinksEnd: with the first administrator, however made, and after a day;
// other users, whatever they are, leave them good.
func TestSetupLinksEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		deleteUser(t, db, h.ada)
		old := token(t, h)
		h.advance(24*time.Hour + time.Millisecond)
		refused(t, h.setUp(old, ada, adaPass), 401, 5018)
		secret := token(t, h)
		makeUser(t, h, bob)
		refused(t, h.setUp(secret, bob, adaPass), 409, 5030, "email")
		err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			_, err := h.CreateFederated(t.Context(), tx, RegistrationOpen, "stranger", "")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		other := token(t, h)
		if w := h.setUp(secret, ada, adaPass); w.Code != http.StatusOK {
			t.Errorf("a stranger's account ended the link: %d %s", w.Code, w.Body)
		}
		refused(t, h.setUp(other, "second@example.org", adaPass), 401, 5018)
	})
}

func TestSetupPage(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	w := h.call("GET", "/setup?token=x", "")
	policy := w.Header().Get("Content-Security-Policy")
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || strings.Contains(w.Body.String(), "http") ||
		!strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, "script-src 'sha256-") || strings.Contains(policy, "unsafe") || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%d %q\n%s", w.Code, policy, w.Body)
	}
}
