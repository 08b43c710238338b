package audit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/web"
)

type list struct {
	Data []audit.Record
	Meta web.Meta
}

// get asks for user 1's log as user 1.
func (h *harness) get(query string, want int) (l list, text string) {
	h.t.Helper()
	m := web.New(web.Options{Log: discard(), Auth: web.Authenticator{Session: func(r *http.Request) (*access.Caller, error) {
		id, err := strconv.ParseInt(r.Header.Get("As"), 10, 64)
		return &access.Caller{Kind: access.KindSession, UserID: id, SessionID: 7}, err
	}}})
	h.Mount(m)
	path, as, found := strings.Cut(query, " as ")
	if !found {
		as = "1"
	}
	r := httptest.NewRequestWithContext(h.t.Context(), "GET", "/apiv1/users/"+path, nil)
	r.Header.Set("As", as)
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	if w.Code != want {
		h.t.Fatalf("%s: %d %s, want %d", query, w.Code, w.Body, want)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
		h.t.Fatal(err)
	}
	return l, w.Body.String()
}

func TestList(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		start := h.now
		for n := range 6 {
			h.now = start.Add(time.Duration(n) * time.Second)
			h.record(session(t, 1), []string{"thing.do", "thing.make"}[n%2], 1, 2)
		}
		h.record(session(t, 1), "thing.do", 1) // at the same time as the one before
		ids := func(query string) string {
			t.Helper()
			l, _ := h.get(query, 200)
			var ids []int64
			for _, r := range l.Data {
				ids = append(ids, r.ID)
			}
			return fmt.Sprint(ids, " of ", l.Meta.Total)
		}
		at := func(n int) string { return strconv.FormatInt(start.Add(time.Duration(n)*time.Second).UnixMilli(), 10) }
		for query, want := range map[string]string{
			"1/audit-log": "[7 6 5 4 3 2 1] of 7", "1/audit-log?limit=2": "[7 6] of 7", "1/audit-log?limit=2&offset=5": "[2 1] of 7", "1/audit-log?offset=9": "[] of 7",
			"1/audit-log?action=thing.make":                  "[6 4 2] of 3",
			"1/audit-log?action=thing.":                      "[] of 0",
			"1/audit-log?since=" + at(4):                     "[7 6 5] of 3",
			"1/audit-log?until=" + at(1):                     "[1] of 1",
			"1/audit-log?since=" + at(1) + "&until=" + at(3): "[3 2] of 2",
			"1/audit-log?since=" + at(1) + "&until=" + at(5) + "&action=thing.make&limit=1": "[4] of 2",
			"3/audit-log as 3": "[] of 0",
		} {
			if ids(query) != want {
				t.Errorf("%s: %s, want %s", query, ids(query), want)
			}
		}
		l, text := h.get("1/audit-log?limit=1", 200)
		got := l.Data[0]
		got.Detail = nil
		if !reflect.DeepEqual(got, audit.Record{ID: 7, At: h.now.UnixMilli(), Actor: "session 7", Action: "thing.do", Object: "thing 1"}) {
			t.Errorf("%+v", got)
		}
		if !strings.Contains(text, `"detail":{"id":9007199254740993}`) {
			t.Errorf("the id of the detail became a float: %s", text)
		}
		for query, want := range map[string]int{
			"2/audit-log": 403, "0/audit-log": 403, "1/audit-log as 2": 403, "1/audit-log?limit=0": 400, "1/audit-log?limit=1001": 400, "1/audit-log?offset=-1": 400,
			"1/audit-log?since=-1": 400, "1/audit-log?since=5&until=5": 400, "1/audit-log?until=x": 400, "1/audit-log?action=" + strings.Repeat("a", 101): 400,
		} {
			h.get(query, want)
		}
	})
}

// Pages that follow one another show every entry once.
func TestPages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		for range 25 {
			h.record(session(t, 1), "thing.do", 1)
		}
		var ids []int64
		for offset := 0; offset < 25; offset += 10 {
			l, _ := h.get(fmt.Sprintf("1/audit-log?limit=10&offset=%d", offset), 200)
			for _, r := range l.Data {
				ids = append(ids, r.ID)
			}
		}
		slices.Reverse(ids)
		for i, id := range ids {
			if id != int64(i+1) {
				t.Fatalf("%v", ids)
			}
		}
		if len(ids) != 25 {
			t.Errorf("%d entries", len(ids))
		}
	})
}
