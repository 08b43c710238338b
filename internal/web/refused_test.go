package web_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

// Whoever is known and refused is told of, once; nobody else is.
func TestRefused(t *testing.T) {
	t.Parallel()
	var told []string
	m := web.New(web.Options{
		Log: slog.New(slog.DiscardHandler),
		Auth: web.Authenticator{Session: func(r *http.Request) (*access.Caller, error) {
			if r.Header.Get("Cookie") == "" {
				return nil, nil
			}
			return &access.Caller{Kind: access.KindSession, UserID: 7}, nil
		}, Key: func(context.Context, string) (*access.Caller, error) {
			return &access.Caller{Kind: access.KindKey, UserID: 7}, nil
		}},
		Refused: func(ctx context.Context, r web.Refusal) {
			told = append(told, fmt.Sprint(access.From(ctx).UserID, " ", r.Route, " ", r.Path, " ", r.Code))
		},
	})
	forbidden := func(context.Context, *struct {
		ID int64 `path:"item_id"`
	}) (item, error) {
		return item{}, fault.Forbidden("No.")
	}
	web.Route(m, "POST /apiv1/users/{user_id}/items/{item_id}", access.Session(), forbidden)
	web.Raw(m, "GET /raw", access.Session(), 0, func(http.ResponseWriter, *http.Request) error { return fault.Forbidden("No.") })
	web.Raw(m, "GET /open", access.Public(), 0, func(http.ResponseWriter, *http.Request) error { return fault.Forbidden("No.") })
	for _, tt := range []struct {
		line, header string
		status       int
		want         string
	}{
		{"POST /apiv1/users/7/items/5", "Cookie", 403, "[7 POST /apiv1/users/{user_id}/items/{item_id} /apiv1/users/7/items/5 5022]"},
		{"POST /apiv1/me/items/5", "Cookie", 403, "[7 POST /apiv1/users/{user_id}/items/{item_id} /apiv1/users/~/items/5 5022]"},
		{"POST /apiv1/users/8/items/5", "Cookie", 403, "[7 POST /apiv1/users/{user_id}/items/{item_id} /apiv1/users/8/items/5 5022]"},
		{"POST /apiv1/me/items/5", "Authorization", 403, "[7 POST /apiv1/users/{user_id}/items/{item_id} /apiv1/users/~/items/5 5022]"},
		{"POST /apiv1/me/items/x", "Cookie", 404, "[]"},
		{"POST /apiv1/me/items/5", "None", 401, "[]"},
		{"GET /raw", "Cookie", 403, "[7 GET /raw /raw 5022]"},
		{"GET /open", "Cookie", 403, "[]"},
	} {
		told = nil
		var method, path string
		_, _ = fmt.Sscan(tt.line, &method, &path)
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Header.Set(tt.header, "Bearer ak_x")
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		if w.Code != tt.status || fmt.Sprint(told) != tt.want {
			t.Errorf("%s with %s: %d, told %v, want %d, %s", tt.line, tt.header, w.Code, told, tt.status, tt.want)
		}
	}
}
