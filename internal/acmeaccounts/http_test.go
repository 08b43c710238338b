package acmeaccounts_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
)

const hmacKey = "Y2FuYXJ5LWVhYi1obWFjLWtleQ" // searched for in every answer

// rig is the area behind a mux. The session cookie names the user.
type rig struct {
	t   *testing.T
	mux *web.Mux
	db  *sqldb.DB
}

func newRig(t *testing.T, db *sqldb.DB) *rig {
	t.Helper()
	for range 2 {
		err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
				VALUES ('u' || (SELECT COUNT(*) FROM users) || '@example.org', '', '', '', 'ACTIVE', '[]', 0, 0)`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	keys, err := seal.New([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	pool := acme.NewPool(acme.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(pool.Close)
	service := acmeaccounts.NewService(acmeaccounts.Deps{DB: db, Audit: audit.New(time.Now), Keys: keys, ACME: pool, Now: time.Now})
	mux := web.New(web.Options{Log: slog.New(slog.DiscardHandler), Auth: web.Authenticator{
		Session: func(r *http.Request) (*access.Caller, error) {
			return &access.Caller{Kind: access.KindSession, UserID: map[string]int64{"one": 1, "two": 2}[r.Header.Get("Cookie")]}, nil
		},
		Key: func(_ context.Context, token string) (*access.Caller, error) {
			return &access.Caller{Kind: access.KindKey, UserID: 1, Grants: []access.Grant{{Scope: "acme_accounts", Object: strings.TrimPrefix(token, "ak_"), Actions: []string{"read", "write"}}}}, nil
		},
	}})
	service.Mount(mux)
	return &rig{t, mux, db}
}

// do sends a request as the user ("one", "two") or key ("ak_…").
func (r *rig) do(as, method, path, body string, want int) string {
	r.t.Helper()
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	if strings.HasPrefix(as, "ak_") {
		request.Header.Set("Authorization", "Bearer "+as)
	} else {
		request.Header.Set("Cookie", as)
	}
	w := httptest.NewRecorder()
	r.mux.ServeHTTP(w, request)
	if w.Code != want {
		r.t.Fatalf("%s %s %s as %s: %d %s, want %d", method, path, body, as, w.Code, w.Body, want)
	}
	if strings.Contains(w.Body.String(), hmacKey) {
		r.t.Errorf("the answer holds the HMAC key: %s", w.Body)
	}
	return w.Body.String()
}

const base = "/apiv1/me/acme-accounts"

func TestAccountLife(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db)
		created := r.do("one", "POST", base, `{"name":"le","email":"a@example.org","provider":"letsencrypt","eab_kid":"k","eab_hmac_key":"`+hmacKey+`"}`, 201)
		for _, part := range []string{`"id":1`, `"ca_id":null`, `"status":"NEW"`, `"directory_url":"https://acme-v02.api.letsencrypt.org/directory"`} {
			if !strings.Contains(created, part) {
				t.Errorf("no %s in %s", part, created)
			}
		}
		if changed := r.do("one", "PUT", base+"/1", `{"name":"renamed"}`, 200); !strings.Contains(changed, `"name":"renamed"`) || !strings.Contains(changed, `"email":"a@example.org"`) {
			t.Error(changed)
		}
		r.do("one", "POST", base, `{"name":"second","email":"","provider":"letsencrypt-staging"}`, 201)
		if list := r.do("one", "GET", base, "", 200); strings.Index(list, "second") > strings.Index(list, "renamed") || !strings.Contains(list, `"total":2`) {
			t.Errorf("not newest first: %s", list)
		}
		if list := r.do("two", "GET", base, "", 200); list != `{"data":[],"meta":{"total":0,"offset":0,"limit":100}}`+"\n" {
			t.Errorf("another user sees %s", list)
		}
		if list := r.do("one", "GET", base+"?offset=2147483648", "", 200); !strings.Contains(list, `"data":[]`) {
			t.Errorf("an offset beyond 32 bits: %s", list)
		}
		r.do("one", "DELETE", base+"/1", "", 204)
		r.do("one", "GET", base+"/1", "", 404)
	})
}

func TestForeignAccountIsLikeAnAbsentOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db)
		r.do("one", "POST", base, `{"name":"le","email":"","provider":"letsencrypt"}`, 201)
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			body := map[string]string{"PUT": `{"name":"x"}`}[method]
			if foreign, absent := r.do("two", method, base+"/1", body, 404), r.do("two", method, base+"/99", body, 404); foreign != absent {
				t.Errorf("%s: %s is not %s", method, foreign, absent)
			}
		}
		if list := r.do("ak_7", "GET", base, "", 200); !strings.Contains(list, `"data":[]`) {
			t.Errorf("a key for another account sees %s", list)
		}
		if list := r.do("ak_1", "GET", base, "", 200); !strings.Contains(list, `"total":1`) {
			t.Errorf("a key for this account sees %s", list)
		}
		r.do("ak_1", "GET", base+"/1", "", 200)
		r.do("ak_1", "POST", base, `{"name":"le","email":"","provider":"letsencrypt"}`, 403)
		r.do("ak_*", "POST", base, `{"name":"le","email":"","provider":"letsencrypt"}`, 201)
	})
}

func TestRefusedAccounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, dbtest.SQLite(t))
	for body, field := range map[string]string{
		`{"provider":"letsencrypt"}`:                                                                         "name",
		`{"name":" ","provider":"letsencrypt"}`:                                                              "name",
		`{"name":"a","provider":"nobody"}`:                                                                   "provider",
		`{"name":"a","provider":"letsencrypt","email":"x"}`:                                                  "email",
		`{"name":"a","provider":"letsencrypt","email":"A <a@b.c>"}`:                                          "email",
		`{"name":"a","provider":"letsencrypt","directory_url":"https://x.example/d"}`:                        "directory_url",
		`{"name":"a","provider":"custom"}`:                                                                   "directory_url",
		`{"name":"a","provider":"custom","directory_url":"http://x.example/d"}`:                              "directory_url",
		`{"name":"a","provider":"custom","directory_url":"https://x.example/d","ca_bundle_pem":"x"}`:         "ca_bundle_pem",
		`{"name":"a","provider":"SELF_CA"}`:                                                                  "ca_id",
		`{"name":"a","provider":"letsencrypt","ca_id":5}`:                                                    "ca_id",
		`{"name":"a","provider":"letsencrypt","ca_id":-5}`:                                                   "ca_id",
		`{"name":"a","provider":"letsencrypt","eab_hmac_key":"` + hmacKey + `"}`:                             "eab_hmac_key",
		`{"name":"a","provider":"letsencrypt","eab_kid":"k","eab_hmac_key":"not base64url!` + hmacKey + `"}`: "eab_hmac_key",
		`{"name":"a","provider":"letsencrypt","leaf_key_algorithm":"DSA"}`:                                   "leaf_key_algorithm",
		`{"name":"a","provider":"letsencrypt","leaf_rsa_bits":1024}`:                                         "leaf_rsa_bits",
		`{"name":"a","provider":"letsencrypt","leaf_ec_curve":"P-224"}`:                                      "leaf_ec_curve",
	} {
		var answer struct {
			Error struct {
				Code fault.Code
				What string
			}
		}
		if err := json.Unmarshal([]byte(r.do("one", "POST", base, body, 400)), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Error.Code != fault.CodeInvalid || !strings.Contains(answer.Error.What, field) {
			t.Errorf("%s: %+v does not name %s", body, answer.Error, field)
		}
	}
}

func TestRegisterAtPebble(t *testing.T) {
	t.Parallel()
	pebble := acmetest.Start(t, acmetest.Options{})
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db)
		body, err := json.Marshal(map[string]any{"name": "pebble", "email": "a@example.org", "provider": "custom", "directory_url": pebble.DirectoryURL, "ca_bundle_pem": pebble.CABundlePEM})
		if err != nil {
			t.Fatal(err)
		}
		r.do("one", "POST", base, string(body), 201)
		first := r.do("one", "PUT", base+"/1", `{"action":"register"}`, 200)
		if !strings.Contains(first, `"status":"REGISTERED"`) || !strings.Contains(first, `"account_url":"https://`) {
			t.Fatal(first)
		}
		if again := r.do("one", "PUT", base+"/1", `{"action":"register"}`, 200); accountURL(t, again) != accountURL(t, first) {
			t.Errorf("registered twice: %s and %s", first, again)
		}
		if moved := r.do("one", "PUT", base+"/1", `{"provider":"letsencrypt"}`, 200); !strings.Contains(moved, `"status":"NEW"`) {
			t.Errorf("still registered after it moved: %s", moved)
		}
	})
}

func accountURL(t *testing.T, answer string) string {
	t.Helper()
	var a struct {
		Data struct {
			AccountURL string `json:"account_url"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Data.AccountURL == "" {
		t.Fatalf("%v in %s", err, answer)
	}
	return a.Data.AccountURL
}
