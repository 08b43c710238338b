package threats_test

import (
	"maps"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// The answer for somebody else's object is that for one that does not exist,
// byte for byte, on every route, and the object stays as it is (threats.md
// scenario 1).
func TestForeignIsLikeAbsent(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		w := apptest.NewWorld(t, db)
		before := w.Seen(t, w.Bob)
		tried := map[string]int{}
		for _, o := range w.Operations {
			if o.Rule.TakesNone() || apptest.OfAdmins(o) || !w.Admitted(o) { // administrators look after the objects of all
				continue
			}
			for _, parameter := range o.Parameters() {
				if parameter == "user_id" || o.Line() == apptest.NotImplemented {
					continue
				}
				foreign, none := maps.Clone(w.Alice.Ids), maps.Clone(w.Alice.Ids)
				foreign[parameter], none[parameter] = w.Bob.Ids[parameter], apptest.AbsentID(parameter)
				who := w.As(o, w.Alice)
				a := who.Try(o.Method, w.Fill(o, foreign), o.Good(w.Alice))
				b := who.Try(o.Method, w.Fill(o, none), o.Good(w.Alice))
				name := o.Line() + " by " + parameter
				p := a.Check(t, name, o)
				if a.Status != b.Status || string(a.Body) != string(b.Body) {
					t.Errorf("%s: foreign %d %s\nabsent %d %s", name, a.Status, a.Body, b.Status, b.Body)
				}
				if p == nil || a.Status != 404 || p.Code != 5003 || p.Key == "UNKNOWN_PATH" {
					t.Errorf("%s: %d %.200s, want 404/5003", name, a.Status, a.Body)
				}
				tried[parameter]++
			}
		}
		for parameter := range w.Alice.Ids {
			if strings.HasSuffix(parameter, "_id") && parameter != "user_id" && tried[parameter] == 0 {
				t.Errorf("no route was tried with a foreign %s", parameter)
			}
		}
		w.ForeignMembers(t)
		if after := w.Seen(t, w.Bob); after != before {
			t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
		}
	})
}
