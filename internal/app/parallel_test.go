package app_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
)

// Fifty identical POSTs at once do no harm: nothing fails with a 5xx, ids are
// all different, what may be there once is there once, and each list shows
// exactly what was acknowledged.
func TestParallelPosts(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		w := newWorld(t, db)
		for _, o := range w.operations {
			if o.method != http.MethodPost || !w.admitted(o) {
				continue
			}
			for _, body := range o.bodies(w.alice) {
				parallelPosts(t, w, o, body)
			}
			if o.body == nil && o.line() != "POST /auth/logout" {
				parallelPosts(t, w, o, nil)
			}
		}
		w.wellAfter(t)
	})
}

const crowd = 50

func parallelPosts(t *testing.T, w *world, o *operation, body any) {
	t.Helper()
	path := w.fill(o, w.alice.ids)
	list := w.find("GET " + strings.TrimPrefix(o.line(), "POST "))
	before := total(t, w, list)
	answers := make([]*answer, crowd)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() { answers[i] = w.as(o, w.alice).try(o.method, path, body) })
	}
	group.Wait()
	made := map[int64]int{}
	counts := map[int]int{}
	for _, a := range answers {
		p := a.check(t, o.line(), o)
		counts[a.status]++
		if a.status == 400 && o.body != nil && !p.names(append(o.body.members(), "body")...) {
			t.Errorf("%s: %s", o.line(), a.body)
		}
		if a.status == http.StatusCreated {
			var record struct{ ID int64 }
			a.data(t, &record)
			made[record.ID]++
		}
	}
	for id, n := range made {
		if again := strings.HasSuffix(o.path, "/redeliver"); id == 0 || n > 1 && !again { // the same delivery once more
			t.Errorf("%s: %d answers made the record %d", o.line(), n, id)
		}
	}
	if list != nil && list.query["limit"] != nil {
		if after := total(t, w, list); after-before != int64(len(made)) {
			t.Errorf("%s: %d were made, the list has %d more", o.line(), len(made), after-before)
		}
	}
	if o.line() == "POST U/certificates/{certificate_id}/issues" && len(made) > 0 {
		t.Errorf("an issuance is under way, and %d more were started: %v", len(made), counts)
	}
}

func total(t *testing.T, w *world, list *operation) int64 {
	t.Helper()
	if list == nil || list.query["limit"] == nil {
		return 0
	}
	a := w.as(list, w.alice).do("GET", w.fill(list, w.alice.ids), nil, 200)
	var envelope struct{ Meta struct{ Total int64 } }
	decode(t, a.body, &envelope)
	return envelope.Meta.Total
}
