package life_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Fifty identical POSTs at once do no harm: nothing fails with a 5xx, ids are
// all different, what may be there once is there once, and each list shows
// exactly what was acknowledged.
func TestParallelPosts(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		w := apptest.NewWorld(t, db)
		for _, o := range w.Operations {
			if o.Method != http.MethodPost || !w.Admitted(o) {
				continue
			}
			for _, body := range o.Bodies(w.Alice) {
				parallelPosts(t, w, o, body)
			}
			if o.Body == nil && o.Line() != "POST /auth/logout" {
				parallelPosts(t, w, o, nil)
			}
		}
		w.WellAfter(t)
	})
}

const crowd = 50

func parallelPosts(t *testing.T, w *apptest.World, o *apptest.Operation, body any) {
	t.Helper()
	path := w.Fill(o, w.Alice.Ids)
	list := w.Find("GET " + strings.TrimPrefix(o.Line(), "POST "))
	before := total(t, w, list)
	answers := make([]*apptest.Answer, crowd)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() { answers[i] = w.As(o, w.Alice).Try(o.Method, path, body) })
	}
	group.Wait()
	made := map[int64]int{}
	counts := map[int]int{}
	for _, a := range answers {
		p := a.Check(t, o.Line(), o)
		counts[a.Status]++
		if a.Status == 400 && o.Body != nil && !p.Names(append(o.Body.Members(), "body")...) {
			t.Errorf("%s: %s", o.Line(), a.Body)
		}
		if a.Status == http.StatusCreated {
			var record struct{ ID int64 }
			a.Data(t, &record)
			made[record.ID]++
		}
	}
	if o.Line() == "POST /apiv1/admin/users" && len(made) > 1 { // an invitation takes the place of the one before, which is not accepted yet
		clear(made)
		made[1] = 1
	}
	for id, n := range made {
		if again := strings.HasSuffix(o.Path, "/redeliver"); id == 0 || n > 1 && !again { // the same delivery once more
			t.Errorf("%s: %d answers made the record %d", o.Line(), n, id)
		}
	}
	if list != nil && list.Query["limit"] != nil {
		if after := total(t, w, list); after-before != int64(len(made)) {
			t.Errorf("%s: %d were made, the list has %d more", o.Line(), len(made), after-before)
		}
	}
	if o.Line() == "POST U/certificates/{certificate_id}/issues" && len(made) > 0 {
		t.Errorf("an issuance is under way, and %d more were started: %v", len(made), counts)
	}
}

func total(t *testing.T, w *apptest.World, list *apptest.Operation) int64 {
	t.Helper()
	if list == nil || list.Query["limit"] == nil {
		return 0
	}
	a := w.As(list, w.Alice).Do("GET", w.Fill(list, w.Alice.Ids), nil, 200)
	var envelope struct{ Meta struct{ Total int64 } }
	apptest.Decode(t, a.Body, &envelope)
	return envelope.Meta.Total
}
