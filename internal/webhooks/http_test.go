package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
)

// api drives the routes. Credentials are "session <user>" in X-Test and keys
// are those of the map.
type api struct {
	t    *testing.T
	mux  *web.Mux
	f    *fixture
	log  *bytes.Buffer
	keys map[string]*access.Caller
}

func newAPI(t *testing.T, f *fixture) *api {
	a := &api{t: t, f: f, log: &bytes.Buffer{}, keys: map[string]*access.Caller{}}
	a.mux = web.New(web.Options{
		Log: slog.New(slog.NewTextHandler(a.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Auth: web.Authenticator{
			Session: func(r *http.Request) (*access.Caller, error) {
				var user int64
				if _, err := fmt.Sscanf(r.Header.Get("X-Test"), "session %d", &user); err != nil {
					return nil, nil //nolint:nilerr // no session
				}
				return &access.Caller{Kind: access.KindSession, UserID: user, SessionID: 1}, nil
			},
			Key: func(_ context.Context, token string) (*access.Caller, error) {
				if c := a.keys[token]; c != nil {
					return c, nil
				}
				return nil, fault.Unauthorized("no such key")
			},
		},
	})
	f.Mount(a.mux)
	return a
}

type answer struct {
	status   int
	header   http.Header
	raw      string
	Data     json.RawMessage
	Meta     web.Meta
	Warnings []string
	Error    struct {
		Code int
		What string
	}
}

func (a *api) call(credential, line, body string) answer {
	a.t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r := httptest.NewRequestWithContext(a.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(credential, "ak_") {
		r.Header.Set("Authorization", "Bearer "+credential)
	} else {
		r.Header.Set("X-Test", credential)
	}
	rec := httptest.NewRecorder()
	a.mux.ServeHTTP(rec, r)
	got := answer{status: rec.Code, header: rec.Header(), raw: rec.Body.String()}
	if rec.Code != http.StatusNoContent {
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
			a.t.Fatalf("%s: %v in %q", line, err, got.raw)
		}
	}
	if strings.Contains(got.raw, testSecret) || strings.Contains(got.raw, `"secret"`) {
		a.t.Errorf("%s: the answer holds the secret: %s", line, got.raw)
	}
	return got
}

func (a *api) want(credential, line, body string, status, code int) answer {
	a.t.Helper()
	got := a.call(credential, line, body)
	if got.status != status || got.Error.Code != code {
		a.t.Errorf("%s %s %s: %d/%d, want %d/%d: %s", credential, line, body, got.status, got.Error.Code, status, code, got.raw)
	}
	return got
}

func decode[T any](t *testing.T, a answer) (v T) {
	t.Helper()
	if err := json.Unmarshal(a.Data, &v); err != nil {
		t.Fatalf("%v in %s", err, a.raw)
	}
	return v
}

const good = `{"url":"https://hook.example.com/x","secret":"` + testSecret + `","event_key":"certificate.issued"}`

func TestCRUD(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		a := newAPI(t, f)
		me := fmt.Sprintf("session %d", f.user)
		base := fmt.Sprintf("/apiv1/users/%d/service_webhooks", f.user)

		made := a.want(me, "POST "+base, good, 201, 0)
		w := decode[Webhook](t, made)
		if made.header.Get("Location") != fmt.Sprintf("%s/%d", base, w.ID) || made.Warnings != nil {
			t.Errorf("location %q, warnings %v", made.header.Get("Location"), made.Warnings)
		}
		if want := fmt.Sprintf(`{"id":%d,"user_id":%d,"url":"https://hook.example.com/x","event_key":"certificate.issued","scope":{"type":"all"},"enabled":true,`+
			`"disabled_reason":"","last_delivery":null,"created_at":1800000000000,"updated_at":1800000000000}`, w.ID, f.user); string(made.Data) != want {
			t.Errorf("%s, want %s", made.Data, want)
		}
		item := fmt.Sprintf("%s/%d", base, w.ID)
		if got := a.want(me, "GET "+item, "", 200, 0); string(got.Data) != string(made.Data) {
			t.Errorf("%s, want %s", got.Data, made.Data)
		}
		a.want(me, fmt.Sprintf("GET /apiv1/me/service_webhooks/%d", w.ID), "", 200, 0)

		odd := a.want(me, "POST "+base, strings.Replace(good, "{", `{"scope":"not JSON","enabled":false,`, 1), 201, 0)
		if got := decode[Webhook](t, odd); got.Scope.Type != ScopeAll || got.Enabled || len(odd.Warnings) != 1 || !strings.HasPrefix(odd.Warnings[0], "scope ") {
			t.Errorf("%+v, warnings %v", got, odd.Warnings)
		}
		put := a.want(me, "PUT "+item, strings.Replace(good, "{", `{"scope":{"type":"cert_id","cert_id":5},`, 1), 200, 0)
		if got := decode[Webhook](t, put); got.Scope != (Scope{Type: ScopeCert, CertID: 5}) || got.ID != w.ID {
			t.Errorf("%+v", got)
		}
		put = a.want(me, "PUT "+item, strings.Replace(good, "{", `{"scope":{"type":"cert"},`, 1), 200, 0)
		if len(put.Warnings) != 1 {
			t.Errorf("warnings %v", put.Warnings)
		}

		list := a.want(me, "GET "+base+"?limit=1", "", 200, 0)
		if got := decode[[]Webhook](t, list); len(got) != 1 || got[0].ID == w.ID || list.Meta != (web.Meta{Total: 2, Offset: 0, Limit: 1}) {
			t.Errorf("%+v, %+v", got, list.Meta)
		}
		if got := decode[[]Webhook](t, a.want(me, "GET "+base+"?offset=1", "", 200, 0)); len(got) != 1 || got[0].ID != w.ID {
			t.Errorf("%+v", got)
		}
		a.want(me, "GET "+base+"?offset=9223372036854775807", "", 200, 0)
		a.want(me, "GET "+base+"?limit=0", "", 400, 5000)
		a.want(me, "GET "+base+"?limit=1001", "", 400, 5000)
		a.want(me, "DELETE "+item, "", 204, 0)
		a.want(me, "GET "+item, "", 404, 5003)
		a.want(me, "DELETE "+item, "", 404, 5003)
		if strings.Contains(a.log.String(), testSecret) {
			t.Error("the log holds the secret")
		}
	})
}

func TestInputIsRefused(t *testing.T) {
	f := newFixture(t, dbtest.SQLite(t))
	a := newAPI(t, f)
	me := fmt.Sprintf("session %d", f.user)
	base := fmt.Sprintf("/apiv1/users/%d/service_webhooks", f.user)
	w := f.hook("https://hook.example.com", nil)
	for body, field := range map[string]string{
		`{}`:                              "",
		`[]`:                              "",
		`nonsense`:                        "",
		`{"url":"https://a.example.com"}`: "secret",
		`{"secret":"0123456789abcdef"}`:   "url",
		`{"url":"https://a.example.com","secret":"short"}`:                                                              "secret",
		`{"url":"https://a.example.com","secret":"` + strings.Repeat("x", 257) + `"}`:                                   "secret",
		`{"url":"https://a.example.com","secret":5}`:                                                                    "secret",
		`{"url":"https://a.example.com","secret":null}`:                                                                 "secret",
		`{"url":"","secret":"0123456789abcdef"}`:                                                                        "url",
		`{"url":"ftp://a.example.com","secret":"0123456789abcdef"}`:                                                     "url",
		`{"url":"https://","secret":"0123456789abcdef"}`:                                                                "url",
		`{"url":"https:a.example.com","secret":"0123456789abcdef"}`:                                                     "url",
		`{"url":"//a.example.com","secret":"0123456789abcdef"}`:                                                         "url",
		`{"url":"https://a.example.com:0/","secret":"0123456789abcdef"}`:                                                "url",
		`{"url":"https://a.example.com:99999/","secret":"0123456789abcdef"}`:                                            "url",
		`{"url":"https://a:b@a.example.com/","secret":"0123456789abcdef"}`:                                              "url",
		`{"url":"https://a.example.com/\u0001","secret":"0123456789abcdef"}`:                                            "url",
		`{"url":"https://a.example.com/` + strings.Repeat("x", 2048) + `","secret":"0123456789abcdef"}`:                 "url",
		`{"url":"http://10.0.0.1/","secret":"0123456789abcdef"}`:                                                        "url",
		`{"url":"https://a.example.com","secret":"0123456789abcdef","event_key":"certificate.failed"}`:                  "event_key",
		`{"url":"https://a.example.com","secret":"0123456789abcdef","enabled":"yes"}`:                                   "enabled",
		`{"url":"https://a.example.com","secret":"0123456789abcdef","user_id":1}`:                                       "user_id",
		`{"url":"https://a.example.com","secret":"0123456789abcdef","scope":{"type":"domain","domain":"a\u0000.test"}}`: "",
	} {
		for _, line := range []string{"POST " + base, fmt.Sprintf("PUT %s/%d", base, w.ID)} {
			got := a.want(me, line, body, 400, 5000)
			if !strings.Contains(got.Error.What, field) {
				t.Errorf("%s: %q does not name %s", body, got.Error.What, field)
			}
		}
	}
}

func TestOthersAndKeys(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		a := newAPI(t, f)
		rec := newReceiver(t, nil)
		mine, second := f.hook(rec.URL, nil), f.hook(rec.URL, nil)
		f.issued(1, 1)
		f.settleJobs()
		delivered := f.one(mine.ID)
		stranger := newUser(t, db, "stranger@example.com")
		him := fmt.Sprintf("session %d", stranger)
		grant := func(object string, actions ...string) *access.Caller {
			return &access.Caller{Kind: access.KindKey, UserID: f.user, KeyID: 1, Grants: []access.Grant{{Scope: scope, Object: object, Actions: actions}}}
		}
		a.keys["ak_read"] = grant("*", "read")
		a.keys["ak_write"] = grant("*", "write")
		a.keys["ak_one"] = grant(strconv.FormatInt(mine.ID, 10), "read", "write")
		a.keys["ak_other"] = &access.Caller{Kind: access.KindKey, UserID: f.user, KeyID: 2, Grants: []access.Grant{{Scope: "devices", Object: "*", Actions: []string{"read", "write"}}}}

		item := fmt.Sprintf("/apiv1/me/service_webhooks/%d", mine.ID)
		lines := []struct{ line, body string }{
			{"GET " + item, ""},
			{"PUT " + item, good},
			{"DELETE " + item, ""},
			{"POST " + item + "/test", ""},
			{"GET " + item + "/deliveries", ""},
			{fmt.Sprintf("POST %s/deliveries/%d/redeliver", item, delivered.ID), ""},
		}
		for _, l := range lines {
			absent := strings.Replace(l.line, item, "/apiv1/me/service_webhooks/999999", 1)
			got, want := a.want(him, l.line, l.body, 404, 5003), a.want(him, absent, l.body, 404, 5003)
			if got.raw != want.raw {
				t.Errorf("%s: foreign %s, absent %s", l.line, got.raw, want.raw)
			}
			a.want("", l.line, l.body, 401, 5018)
			a.want("ak_other", l.line, l.body, 403, 5022)
			a.want("ak_one", strings.Replace(l.line, item, fmt.Sprintf("/apiv1/me/service_webhooks/%d", second.ID), 1), l.body, 404, 5003)
			if strings.HasPrefix(l.line, "GET") {
				a.want("ak_read", l.line, l.body, 200, 0)
				a.want("ak_write", l.line, l.body, 403, 5022)
			} else {
				a.want("ak_read", l.line, l.body, 403, 5022)
			}
			a.want(him, strings.Replace(l.line, "/me/", fmt.Sprintf("/users/%d/", f.user), 1), l.body, 403, 5022)
		}
		a.want("ak_one", "POST /apiv1/me/service_webhooks", good, 403, 5022)
		a.want("ak_read", "POST /apiv1/me/service_webhooks", good, 403, 5022)
		a.want("ak_write", "POST /apiv1/me/service_webhooks", good, 201, 0)
		one := a.want("ak_one", "GET /apiv1/me/service_webhooks", "", 200, 0)
		if got := decode[[]Webhook](t, one); len(got) != 1 || got[0].ID != mine.ID || one.Meta.Total != 1 {
			t.Errorf("a key for one webhook sees %s", one.raw)
		}
		a.want("ak_one", "GET /apiv1/me/service_webhooks?offset=5", "", 200, 0)
		// A delivery of another webhook of the same user.
		a.want("ak_one", fmt.Sprintf("POST %s/deliveries/%d/redeliver", item, f.one(second.ID).ID), "", 404, 5003)
		for _, id := range []string{"x", "0", "-1", "9223372036854775808", "1.5", "%31x"} {
			a.want(fmt.Sprintf("session %d", f.user), "GET /apiv1/me/service_webhooks/"+id, "", 404, 5003)
		}
	})
}

func TestDeliveriesOverHTTP(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		a := newAPI(t, f)
		me := fmt.Sprintf("session %d", f.user)
		rec := newReceiver(t, status(503))
		w := f.hook(rec.URL, nil)
		item := fmt.Sprintf("/apiv1/me/service_webhooks/%d", w.ID)
		if got := a.want(me, "GET "+item+"/deliveries", "", 200, 0); string(got.Data) != "[]" {
			t.Errorf("%s", got.raw)
		}
		for i := range int64(3) {
			f.issued(i+1, i+1)
		}
		f.settleJobs()
		test := a.want(me, "POST "+item+"/test", "", 201, 0)
		if d := decode[Delivery](t, test); d.Event != EventTest || d.Status != StatusPending {
			t.Errorf("%+v", d)
		}
		a.want(me, "POST "+item+"/test", "", 200, 0)
		page := a.want(me, "GET "+item+"/deliveries?limit=2&offset=1", "", 200, 0)
		list := decode[[]Delivery](t, page)
		if len(list) != 2 || list[0].CertID != 3 || list[0].LastStatusCode != 503 || list[0].NextAttemptAt == 0 || page.Meta.Total != 4 {
			t.Errorf("%s", page.raw)
		}
		again := a.want(me, fmt.Sprintf("POST %s/deliveries/%d/redeliver", item, list[0].ID), "", 201, 0)
		if d := decode[Delivery](t, again); d.ID != list[0].ID || d.NextAttemptAt != f.clock.Now().UnixMilli() {
			t.Errorf("%+v", d)
		}
		a.want(me, "PUT "+item, strings.Replace(good, "{", `{"enabled":false,`, 1), 200, 0)
		a.want(me, "POST "+item+"/test", "", 409, 5030)
		a.want(me, fmt.Sprintf("POST %s/deliveries/%d/redeliver", item, list[0].ID), "", 409, 5030)
		if list := decode[[]Delivery](t, a.want(me, "GET "+item+"/deliveries", "", 200, 0)); list[0].NextAttemptAt != 0 {
			t.Errorf("a disabled webhook says when it tries next: %+v", list[0])
		}
	})
}

// At rest the secret is sealed to its row.
func TestSecretIsSealed(t *testing.T) {
	f := newFixture(t, dbtest.SQLite(t))
	a, b := f.hook("https://a.example.com", nil), f.hook("https://b.example.com", nil)
	execute(t, f.db, "UPDATE service_webhooks SET secret = (SELECT secret FROM service_webhooks WHERE id = $1) WHERE id = $2", a.ID, b.ID)
	for id, ok := range map[int64]bool{a.ID: true, b.ID: false} {
		hook, err := lockIn(t, f, id)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(hook.secret, []byte(testSecret)) {
			t.Error("the secret is stored as it is")
		}
		if _, err := f.keys.Open(secretPlace(id), hook.secret); (err == nil) != ok {
			t.Errorf("webhook %d: %v", id, err)
		}
	}
}
