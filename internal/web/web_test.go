package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

type item struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

type createInput struct {
	Body struct {
		Name     string   `json:"name" minLength:"1" maxLength:"8"`
		Password string   `json:"password,omitempty" pattern:"^x*$"`
		Count    int64    `json:"count,omitempty" minimum:"1"`
		Tags     []string `json:"tags,omitempty"`
	}
}

type lenientInput struct {
	Body struct {
		_    struct{} `json:"-" additionalProperties:"true"`
		Name string   `json:"name"`
	}
}

type itemInput struct {
	ItemID int64 `path:"item_id"`
}

type listInput struct {
	web.Page
}

// newMux mounts one route of each kind. A session cookie "s=<user>" and the
// keys ak_all, ak_one (item 1 alone) sign in.
func newMux(t *testing.T, log io.Writer) *web.Mux {
	t.Helper()
	m := web.New(web.Options{
		Log: slog.New(slog.NewJSONHandler(log, nil)),
		Auth: web.Authenticator{
			Session: func(r *http.Request) (*access.Caller, error) {
				if strings.Contains(r.Header.Get("Cookie"), "s=7") {
					return &access.Caller{Kind: access.KindSession, UserID: 7, SessionID: 1}, nil
				}
				return nil, nil
			},
			Key: func(_ context.Context, token string) (*access.Caller, error) {
				object, ok := map[string]string{"ak_all": "*", "ak_one": "1"}[token]
				if !ok {
					return nil, fault.Unauthorized("The API key is not valid.")
				}
				return &access.Caller{Kind: access.KindKey, UserID: 7, KeyID: 3, Grants: []access.Grant{{Scope: "items", Object: object, Actions: []string{"read"}}}}, nil
			},
			Device: func(_ context.Context, token string) (*access.Caller, error) {
				if token != "jwt" {
					return nil, fault.Unauthorized("The device token is not valid.")
				}
				return &access.Caller{Kind: access.KindDevice, UserID: 7, DeviceID: 9}, nil
			},
		},
	})
	items := access.Session().OrKey("items", "read")
	web.RouteReply(m, "POST /apiv1/users/{user_id}/items", access.Session(), func(_ context.Context, in *createInput) (*web.Reply[item], error) {
		return web.Created("/apiv1/users/7/items/1", item{1, in.Body.Name}), nil
	})
	web.RouteReply(m, "GET /apiv1/users/{user_id}/items", items, func(_ context.Context, in *listInput) (*web.Reply[[]item], error) {
		return web.List[item](nil, 0, in.Page), nil
	})
	web.Route(m, "GET /apiv1/users/{user_id}/items/{item_id}", items.On("item_id"), func(_ context.Context, in *itemInput) (item, error) {
		if in.ItemID > 2 {
			return item{}, fault.NotFound("item")
		}
		return item{in.ItemID, "x"}, nil
	})
	web.RouteReply(m, "DELETE /apiv1/users/{user_id}/items/{item_id}", access.Session(), func(context.Context, *itemInput) (*web.Reply[web.None], error) {
		return web.NoContent(), nil
	})
	web.Route(m, "POST /apiv1/lenient", access.Public(), func(_ context.Context, in *lenientInput) (item, error) { return item{1, in.Body.Name}, nil })
	web.Route(m, "GET /apiv1/devices/self/x", access.Device(), func(ctx context.Context, _ *struct{}) (int64, error) { return access.From(ctx).DeviceID, nil })
	web.Route(m, "GET /panic", access.Public(), func(context.Context, *struct{}) (item, error) { panic("secret-in-panic") })
	web.Route(m, "GET /broken", access.Public(), func(context.Context, *struct{}) (item, error) {
		return item{}, errors.New("password=hunter2 in an internal error")
	})
	web.Route(m, "GET /full", access.Public(), func(context.Context, *struct{}) (item, error) { return item{}, sqldb.ErrFull })
	web.Route(m, "GET /any", access.Public(), func(context.Context, *struct{}) (any, error) { return 1, nil })
	web.Raw(m, "GET /raw", access.Public(), 0, func(http.ResponseWriter, *http.Request) error { return fault.NotIssued() })
	return m
}

func do(m http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return w
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	m := newMux(t, io.Discard)
	session := []string{"Cookie", "s=7"}
	tests := []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		contains                 string
	}{
		{"created", "POST", "/apiv1/users/7/items", `{"name":"a"}`, session, 201, `{"data":{"id":1,"name":"a"}}`},
		{"me", "POST", "/apiv1/me/items", `{"name":"a"}`, session, 201, `"data"`},
		{"list is never null", "GET", "/apiv1/me/items", "", session, 200, `{"data":[],"meta":{"total":0,"offset":0,"limit":100}}`},
		{"limit too large", "GET", "/apiv1/me/items?limit=1001", "", session, 400, `"code":5000,"what":"limit: `},
		{"limit not a number", "GET", "/apiv1/me/items?limit=x", "", session, 400, `"code":5000,"what":"limit: `},
		{"negative offset", "GET", "/apiv1/me/items?offset=-1", "", session, 400, `"what":"offset: `},
		{"no body", "POST", "/apiv1/me/items", "", session, 400, `"code":5000`},
		{"not JSON", "POST", "/apiv1/me/items", "{", session, 400, `"what":"body: is not valid JSON`},
		{"array", "POST", "/apiv1/me/items", "[]", session, 400, `"code":5000`},
		{"null", "POST", "/apiv1/me/items", "null", session, 400, `"code":5000`},
		{"unknown member", "POST", "/apiv1/me/items", `{"name":"a","x":1}`, session, 400, `"what":"x: `},
		{"missing member", "POST", "/apiv1/me/items", `{}`, session, 400, `name`},
		{"wrong type", "POST", "/apiv1/me/items", `{"name":5}`, session, 400, `"what":"name: `},
		{"id as string", "POST", "/apiv1/me/items", `{"name":"a","count":"5"}`, session, 400, `"what":"count: `},
		{"id as float", "POST", "/apiv1/me/items", `{"name":"a","count":5.5}`, session, 400, `"what":"count: `},
		{"id too large", "POST", "/apiv1/me/items", `{"name":"a","count":9223372036854775808}`, session, 400, `"code":5000`},
		{"nested null", "POST", "/apiv1/me/items", `{"name":"a","tags":[null]}`, session, 400, `tags`},
		{"NUL", "POST", "/apiv1/me/items", `{"name":"a\u0000"}`, session, 400, `"what":"name: holds a NUL`},
		{"NUL further down", "POST", "/apiv1/me/items", `{"name":"a","tags":["b","\u0000"]}`, session, 400, `"what":"tags[1]: holds a NUL`},
		{"NUL in a name", "POST", "/apiv1/lenient", `{"name":"a","x":{"\u0000":1}}`, nil, 400, `"what":"x: holds a NUL`},
		{"number out of range", "POST", "/apiv1/me/items", `{"name":"a","count":1e400}`, session, 400, `"what":"count: is a number out of range`},
		{"the same, further down", "POST", "/apiv1/me/items", `{"name":"a","tags":["b",-1e400]}`, session, 400, `"what":"tags[1]: is a number out of range`},
		{"member twice", "POST", "/apiv1/me/items", `{"name":"a","name":"b"}`, session, 400, `"what":"name: is there twice`},
		{"a rule passed by with another case", "POST", "/apiv1/lenient", `{"name":"a","NAME":5}`, nil, 400, `"what":"NAME: is there twice`},
		{"the same with the long s", "POST", "/apiv1/me/items", `{"name":"a","tags":[],"tagſ":[]}`, session, 400, `is there twice`},
		{"names that differ in case in a map", "POST", "/apiv1/lenient", `{"name":"a","env":{"PATH":"a","path":"b"},"b":{"name":1}}`, nil, 200, `"data"`},
		{"NUL in path", "GET", "/apiv1/me/items%00", "", session, 400, `NUL`},
		{"NUL in query", "GET", "/apiv1/me/items?limit=%00", "", session, 400, `NUL`},
		{"too large", "POST", "/apiv1/me/items", `{"name":"` + strings.Repeat("a", 1<<20) + `"}`, session, 413, `"code":5000`},
		{"other content type", "POST", "/apiv1/me/items", `name=a`, []string{"Cookie", "s=7", "Content-Type", "application/x-www-form-urlencoded"}, 400, `"what":"Content-Type: must be application/json"`},
		{"deep", "POST", "/apiv1/me/items", `{"name":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, session, 400, `"what":"name[0]`},
		{"lenient", "POST", "/apiv1/lenient", `{"name":"a","newer":{}}`, nil, 200, `"data"`},
		{"no content", "DELETE", "/apiv1/me/items/1", "", session, 204, ""},
		{"no credential", "GET", "/apiv1/me/items", "", nil, 401, `"code":5018`},
		{"garbage bearer", "GET", "/apiv1/me/items", "", []string{"Authorization", "Bearer x"}, 401, `"code":5018`},
		{"bad key", "GET", "/apiv1/me/items", "", []string{"Authorization", "Bearer ak_x"}, 401, `"code":5018`},
		{"key", "GET", "/apiv1/me/items/2", "", []string{"Authorization", "Bearer ak_all"}, 200, `"id":2`},
		{"key of one object", "GET", "/apiv1/me/items/1", "", []string{"Authorization", "Bearer ak_one"}, 200, `"id":1`},
		{"key of another object", "GET", "/apiv1/me/items/2", "", []string{"Authorization", "Bearer ak_one"}, 404, `"what":"No such item."`},
		{"key where none is taken", "DELETE", "/apiv1/me/items/2", "", []string{"Authorization", "Bearer ak_all"}, 403, `"code":5022`},
		{"other user", "GET", "/apiv1/users/8/items", "", session, 403, `"code":5022`},
		{"leading zero", "GET", "/apiv1/users/07/items", "", session, 403, `"code":5022`},
		{"plus", "GET", "/apiv1/users/+7/items", "", session, 403, `"code":5022`},
		{"me as id", "GET", "/apiv1/users/me/items", "", session, 403, `"code":5022`},
		{"the marker as id", "GET", "/apiv1/users/~/items", "", session, 403, `"code":5022`},
		{"2^63", "GET", "/apiv1/users/9223372036854775808/items", "", session, 403, `"code":5022`},
		{"escaped own id", "GET", "/apiv1/users/%37/items", "", session, 200, `"data"`},
		{"absent", "GET", "/apiv1/me/items/3", "", session, 404, `{"error":{"code":5003,"what":"No such item."}}`},
		{"id is a word", "GET", "/apiv1/me/items/abc", "", session, 404, `{"error":{"code":5003,"what":"No such item."}}`},
		{"id too large in path", "GET", "/apiv1/me/items/9223372036854775808", "", session, 404, `{"error":{"code":5003,"what":"No such item."}}`},
		{"device", "GET", "/apiv1/devices/self/x", "", []string{"Authorization", "Bearer jwt"}, 200, `{"data":9}`},
		{"session at a device route", "GET", "/apiv1/devices/self/x", "", session, 401, `"code":5018`},
		{"key at a device route", "GET", "/apiv1/devices/self/x", "", []string{"Authorization", "Bearer ak_all"}, 401, `"code":5018`},
		{"unknown path", "GET", "/nowhere", "", nil, 404, `"key":"UNKNOWN_PATH"`},
		{"wrong method", "PUT", "/apiv1/me/items", "", nil, 405, `"code":5000`},
		{"foreign origin", "POST", "/apiv1/me/items", `{"name":"a"}`, []string{"Cookie", "s=7", "Sec-Fetch-Site", "cross-site"}, 403, `"code":5022`},
		{"panic", "GET", "/panic", "", nil, 500, `"code":5017`},
		{"internal", "GET", "/broken", "", nil, 500, `"code":5017`},
		{"disk full", "GET", "/full", "", nil, 503, `"retry_after":60`},
		{"raw", "GET", "/raw", "", nil, 409, `"key":"NOT_ISSUED"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := do(m, tt.method, tt.path, tt.body, tt.headers...)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.contains) {
				t.Fatalf("got %d %s\nwant %d with %s", w.Code, w.Body, tt.status, tt.contains)
			}
			for _, secret := range []string{"hunter2", "secret-in-panic", "goroutine"} {
				if strings.Contains(w.Body.String(), secret) {
					t.Errorf("the answer tells %q: %s", secret, w.Body)
				}
			}
			checkHeaders(t, w)
		})
	}
}

func checkHeaders(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Header().Get("X-Request-Id") == "" {
		t.Error("no X-Request-Id")
	}
	if w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		t.Error("401 without WWW-Authenticate")
	}
	if w.Code == http.StatusMethodNotAllowed && w.Header().Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow is %q", w.Header().Get("Allow"))
	}
	if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "60" {
		t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
	}
	if w.Code == http.StatusNoContent {
		if w.Body.Len() != 0 {
			t.Errorf("204 with a body: %s", w.Body)
		}
		return
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %q", got)
	}
	if !json.Valid(w.Body.Bytes()) {
		t.Errorf("not JSON: %s", w.Body)
	}
}

func TestRejectedValueIsNeverQuoted(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	m := newMux(t, &log)
	w := do(m, "POST", "/apiv1/me/items", `{"name":"a","password":"hunter2"}`, "Cookie", "s=7")
	if w.Code != http.StatusBadRequest || strings.Contains(w.Body.String()+log.String(), "hunter2") {
		t.Fatalf("%d %s\nlog: %s", w.Code, w.Body, log.String())
	}
}

func TestInternalCauseIsLoggedOnceWithTheRequestID(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := do(newMux(t, &log), "GET", "/broken", "")
	if n := strings.Count(log.String(), "hunter2"); n != 1 || !strings.Contains(log.String(), w.Header().Get("X-Request-Id")) {
		t.Fatalf("logged %d times: %s", n, log.String())
	}
}

func TestOpenAPIIsValidAndHoldsEveryRoute(t *testing.T) {
	t.Parallel()
	m := newMux(t, io.Discard)
	if err := m.MountDocs(); err != nil {
		t.Fatal(err)
	}
	w := do(m, "GET", "/openapi.json", "")
	var document struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^[a-zA-Z0-9._-]+$`) // OpenAPI 3.1 section 4.8.7
	ids := map[string]bool{}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			if id := operation.OperationID; !name.MatchString(id) || ids[id] {
				t.Errorf("%s %s has the id %q", method, path, id)
			}
			ids[operation.OperationID] = true
		}
	}
	for component := range document.Components.Schemas {
		if !name.MatchString(component) {
			t.Errorf("a component is called %q", component)
		}
	}
	if strings.Contains(w.Body.String(), "problem+json") || document.Components.Schemas["ErrorEnvelope"] == nil {
		t.Error("errors are not described as they are sent")
	}
	for _, route := range m.Routes() {
		if _, ok := document.Paths[route.Path][strings.ToLower(route.Method)]; !ok && !route.Raw {
			t.Errorf("%s %s is not described", route.Method, route.Path)
		}
	}
	if page := do(m, "GET", "/docs", ""); page.Code != http.StatusOK || !strings.Contains(page.Body.String(), "/openapi.json") {
		t.Errorf("docs: %d %s", page.Code, page.Body)
	}
	if asset := do(m, "GET", "/docs/swagger-ui.css", ""); asset.Code != http.StatusOK || strings.Contains(asset.Header().Get("Content-Type"), "json") {
		t.Errorf("an asset: %d %v", asset.Code, asset.Header())
	}
	absent := do(m, "GET", "/docs/nowhere", "")
	if absent.Code != http.StatusNotFound || !strings.Contains(absent.Body.String(), "UNKNOWN_PATH") {
		t.Errorf("an absent page: %d %s", absent.Code, absent.Body)
	}
}
