package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

// slowly is a body that stops for a while in its middle.
type slowly struct {
	io.Reader
	pause time.Duration
}

func (s *slowly) Read(p []byte) (int, error) {
	time.Sleep(s.pause) // on the synthetic clock
	s.pause = 0
	return s.Reader.Read(p)
}

// Who sends the body so slowly that the key is revoked before its end is
// refused; a quick body costs one look only.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pause          time.Duration
		revoked        bool
		status, looks  int
		handled, moved bool
	}{
		"quick":             {pause: 0, status: 201, looks: 1, handled: true},
		"slow":              {pause: 2 * time.Second, status: 201, looks: 2, handled: true},
		"slow, and revoked": {pause: 2 * time.Second, revoked: true, status: 401, looks: 2},
		"slow, and another": {pause: 2 * time.Second, moved: true, status: 403, looks: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			looks, handled := 0, false
			m := web.New(web.Options{Log: slog.New(slog.DiscardHandler), Auth: web.Authenticator{
				Session: func(*http.Request) (*access.Caller, error) {
					looks++
					if looks > 1 && test.revoked {
						return nil, fault.Unauthorized("The session has ended.")
					}
					caller := &access.Caller{Kind: access.KindSession, UserID: 7, SessionID: int64(looks)}
					if looks > 1 && test.moved {
						caller.UserID = 8
					}
					return caller, nil
				},
			}})
			web.RouteReply(m, "POST /apiv1/users/{user_id}/items", access.Session(), func(ctx context.Context, in *createInput) (*web.Reply[item], error) {
				handled = true
				if got := access.From(ctx).SessionID; got != int64(looks) {
					t.Errorf("%s: the handler sees the caller of look %d, want %d", name, got, looks)
				}
				return web.Created("/x", item{1, in.Body.Name}), nil
			})
			r := httptest.NewRequest(http.MethodPost, "/apiv1/users/7/items", &slowly{strings.NewReader(`{"name":"a"}`), test.pause})
			w := httptest.NewRecorder()
			m.ServeHTTP(w, r)
			if w.Code != test.status || looks != test.looks || handled != test.handled {
				t.Errorf("%s: %d %s, %d looks, handled %v", name, w.Code, w.Body, looks, handled)
			}
		})
	}
}

// HEAD is GET without the body (RFC 9110 section 9.3.2), and Allow names it.
func TestHead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newMux(t, io.Discard))
	defer server.Close()
	for path, status := range map[string]int{"/any": 200, "/raw": 409, "/nowhere": 404, "/full": 503} {
		head, err := http.Head(server.URL + path) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(head.Body)
		head.Body.Close()
		if head.StatusCode != status || len(body) > 0 || !strings.HasPrefix(head.Header.Get("Content-Type"), "application/json") {
			t.Errorf("HEAD %s: %d %q %v", path, head.StatusCode, body, head.Header)
		}
	}
	if w := do(newMux(t, io.Discard), "DELETE", "/any", ""); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("DELETE /any: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	if w := do(newMux(t, io.Discard), "HEAD", "/apiv1/lenient", "{}"); w.Code != 405 || w.Header().Get("Allow") != "POST" {
		t.Errorf("HEAD of a POST: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// What a client calls itself fits into any column.
func TestUserAgentIsBounded(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"curl/8": "curl/8", "": "", "a\x00b\xffc": "abc", strings.Repeat("é", 150): strings.Repeat("é", 100), "x" + strings.Repeat("é", 150): "x" + strings.Repeat("é", 99),
	} {
		got := "never asked"
		m := web.New(web.Options{Log: slog.New(slog.DiscardHandler)})
		web.Raw(m, "GET /agent", access.Public(), 0, func(_ http.ResponseWriter, r *http.Request) error {
			got = web.UserAgent(r.Context())
			return nil
		})
		do(m, "GET", "/agent", "", "User-Agent", sent)
		if got != want {
			t.Errorf("%q: %q, want %q", sent, got, want)
		}
	}
}
