package apptest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// NotImplemented is the fixed 501 of api.md.
const NotImplemented = "GET U/devices/{device_id}"

// WellAfter requires that the server is well after all that.
func (w *World) WellAfter(t *testing.T) {
	t.Helper()
	w.Anonymous().Do("GET", "/health", nil, 200)
	w.Alice.Do("GET", "/auth/profile", nil, 200)
	for _, o := range w.Operations {
		if o.Method != "GET" || o.Raw || !w.Admitted(o) || o.Line() == NotImplemented {
			continue
		}
		a := w.As(o, w.Alice).Try("GET", w.Fill(o, w.Alice.Ids), nil)
		if p := a.Check(t, o.Line(), o); p != nil && p.Key != "NOT_ISSUED" && !p.Names(slices.Collect(maps.Keys(o.Query))...) { // a parameter that is needed
			t.Errorf("%s afterwards: %d %s", o.Line(), a.Status, a.Body)
		}
	}
	if strings.Contains(w.Log.String(), "panic") {
		t.Error("there was a panic; the log has it")
	}
}
