package certs

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// BenchmarkRead is the cost of the two reads that docs/benchmarks.md names,
// without session lookup and sockets.
func BenchmarkRead(b *testing.B) {
	e := newEnv(b, dbtest.SQLite(b))
	for range 100 {
		e.issue(e.create("").ID)
	}
	for name, path := range map[string]string{"one": "/apiv1/me/certificates/50", "list100": "/apiv1/me/certificates"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
				r.Header.Set("X-User", strconv.FormatInt(alice, 10))
				w := httptest.NewRecorder()
				e.mux.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
