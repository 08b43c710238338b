package acmeaccounts_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// Members that are changed at the same time, each by a request of its own, are
// all changed afterwards.
func TestNoUpdateIsLost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db)
		r.do("one", "POST", base, `{"name":"n","email":"e@example.org","provider":"letsencrypt"}`, http.StatusCreated)
		for round := range 25 {
			changes := []string{
				fmt.Sprintf(`"name":"n%d"`, round), fmt.Sprintf(`"email":"e%d@example.org"`, round), fmt.Sprintf(`"profile":"p%d"`, round),
			}
			var group sync.WaitGroup
			for _, change := range changes {
				group.Go(func() {
					request := httptest.NewRequest(http.MethodPut, base+"/1", strings.NewReader("{"+change+"}"))
					request.Header.Set("Cookie", "one")
					request.Header.Set("Content-Type", "application/json")
					w := httptest.NewRecorder()
					if r.mux.ServeHTTP(w, request); w.Code != http.StatusOK {
						t.Errorf("%s: %d %s", change, w.Code, w.Body)
					}
				})
			}
			group.Wait()
			got := r.do("one", "GET", base+"/1", "", http.StatusOK)
			for _, change := range changes {
				if !strings.Contains(got, change) {
					t.Fatalf("round %d lost %s: %s", round, change, got)
				}
			}
		}
	})
}
