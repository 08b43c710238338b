package input_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// badSegments are put, as they are, where each path parameter is.
var badSegments = []string{
	"0", "-1", "abc", "1.0", "1e3", "0x1", "9223372036854775807", "9223372036854775808", "18446744073709551616", "-9223372036854775809",
	"%2e%2e", "%2e%2e%2f%2e%2e", "%00", "1%00", "%ff", "%c0%ae", "%ed%a0%80", "%F0%9F%94%91", "%0a", "%0d%0aX-Injected:%201", "%20", "%25",
	"me", "~", "*", "null", "undefined", "1;1", "1,2", "%27%20OR%201=1--", "%7B%7D", strings.Repeat("9", 5000), strings.Repeat("%ff", 2000),
	"00000000-0000-0000-0000-00000000000g", "%EF%BC%91",
}

// reaching are those that a database may see.
var reaching = []string{"0", "-1", "9223372036854775807", "9223372036854775808", "%ff", "%ed%a0%80", "%F0%9F%94%91", "%27%20OR%201=1--", strings.Repeat("%ff", 2000)}

// Bad path parameters find nothing: 404 as an absent object does, 403 for a
// foreign user, 400 for what is no public id at all.
func TestBadPaths(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		w := apptest.NewWorld(t, db)
		for _, o := range w.Operations {
			for _, parameter := range o.Parameters() {
				list := badSegments
				if w.Postgres && !o.Raw || parameter == "user_id" { // compared by one function, see TestForeignUser
					list = reaching
				}
				for _, segment := range list {
					badSegment(t, w, o, parameter, segment)
				}
			}
		}
		w.WellAfter(t)
	})
}

func badSegment(t *testing.T, w *apptest.World, o *apptest.Operation, parameter, segment string) {
	t.Helper()
	const mark = "PLACEHOLDER"
	ids := maps.Clone(w.Alice.Ids)
	if parameter == "" {
		parameter = "*"
	}
	ids[parameter] = mark
	path := strings.Replace(w.Fill(o, ids), mark, segment, 1)
	a := w.As(o, w.Alice).Try(o.Method, path, o.Good(w.Alice))
	name := fmt.Sprintf("%s as %.80s", o.Line(), path)
	a.Check(t, name, o)
	if !w.Admitted(o) || parameter == "*" {
		return
	}
	want := []int{404}
	switch {
	case strings.Contains(segment, "%00"):
		want = []int{400}
	case strings.Contains(segment, "%2f"): // another path
		want = []int{403, 404, 405}
	case parameter == "user_id" && !o.Rule.TakesAdmins():
		want = []int{403}
	case parameter == "device_public_id":
		want = []int{400}
	case parameter == "token", parameter == "provider": // no ids: what the path is for is its own affair
		want = []int{400, 404}
	case o.Line() == apptest.NotImplemented:
		want = []int{501}
	}
	if !slices.Contains(want, a.Status) {
		t.Errorf("%s: %d %.300s, want %v", name, a.Status, a.Body, want)
	}
	if a.Header.Get("X-Injected") != "" {
		t.Errorf("%s: a header was injected", name)
	}
}

// badParameters are given to each query parameter. The second list is what a
// whole number must be refused for as well.
var (
	badParameters = []string{"%00", "%ff", "%ed%a0%80", "%F0%9F%94%91", "%0a", strings.Repeat("9", 5000), strings.Repeat("a", 5000), "%27%20OR%201=1--", "[]", "{}", "null", "%", "a;b", "5&%s=6"}
	noNumbers     = []string{"abc", "1.5", "1e3", "0x1", "-1", "9223372036854775808", "-9223372036854775809", "+", "1+1", "%20", "٣", "1_000", "NaN", "true"}
	farNumbers    = []string{"0", "1", "2147483647", "2147483648", "4294967296", "9223372036854775806", "9223372036854775807"}
)

func TestBadQueries(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		w := apptest.NewWorld(t, db)
		for _, o := range w.Operations {
			for parameter, s := range o.Query {
				if o.Method == http.MethodDelete {
					continue // a good value among the bad ones would end sessions
				}
				list := slices.Concat(badParameters, farNumbers)
				isNumber := s.Takes("integer") && s.Type != nil
				if isNumber && !w.Postgres { // refused before there is a database
					list = append(list, noNumbers...)
				}
				for _, value := range list {
					if parameter == "wait" && (value == "1" || strings.HasPrefix(value, "5&")) {
						continue // good, and takes its time
					}
					query := parameter + "=" + strings.ReplaceAll(value, "%s", parameter)
					a := w.As(o, w.Alice).Try(o.Method, w.Fill(o, w.Alice.Ids)+"?"+query, o.Good(w.Alice))
					name := fmt.Sprintf("%s with %.80s", o.Line(), query)
					p := a.Check(t, name, o)
					if isNumber && w.Admitted(o) && slices.Contains(noNumbers, value) && (a.Status != 400 || !p.Names(parameter)) {
						t.Errorf("%s: %d %.300s", name, a.Status, a.Body)
					}
					if a.Status == 400 && !p.Names(parameter, "NUL") {
						t.Errorf("%s does not name it: %.300s", name, a.Body)
					}
				}
			}
		}
		w.WellAfter(t)
	})
}

// A wrong method on a known path is 405/5000 and says which ones are right; an
// unknown path is 404/5003 whatever the method.
func TestWrongMethods(t *testing.T) {
	t.Parallel()
	w := apptest.NewWorld(t, dbtest.SQLiteConfig(t))
	allowed := map[string][]string{}
	paths := map[string]*apptest.Operation{}
	for _, o := range w.Operations {
		allowed[o.Path] = append(allowed[o.Path], o.Method)
		paths[o.Path] = o
	}
	for path, o := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "QUERY"} {
			if w.Reaches(method, w.Fill(o, w.Alice.Ids)) || method == http.MethodHead && slices.Contains(allowed[path], http.MethodGet) { // HEAD: TestHead
				continue
			}
			for _, who := range []*apptest.Caller{w.Anonymous(), w.Alice.Caller, w.Alice.Device.Caller} {
				wrongMethod(t, w, who, o, method, allowed[path])
			}
		}
	}
	for _, path := range []string{"//", "/nowhere", "/apiv1", "/apiv1/", "/apiv1/me", "/apiv1/me/", "/apiv1/users/", "/apiv1/me/devices/", "/health/", "//health", "/./health", "/auth/../health", "/apiv1/me/nowhere"} {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
			a := w.Alice.Try(method, path, nil)
			if p := a.Check(t, method+" "+path, nil); p == nil || a.Status != 404 || p.Key != "UNKNOWN_PATH" {
				t.Errorf("%s %s: %d %.200s", method, path, a.Status, a.Body)
			}
		}
	}
	w.WellAfter(t)
}

func wrongMethod(t *testing.T, w *apptest.World, who *apptest.Caller, o *apptest.Operation, method string, right []string) {
	t.Helper()
	a := who.Try(method, w.Fill(o, w.Alice.Ids), nil)
	name := method + " " + o.Path
	if method == http.MethodHead { // no body to look at
		if a.Status >= 500 || len(a.Body) > 0 || a.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		if a.Status == 405 && a.Header.Get("Allow") == "" {
			t.Errorf("%s: 405 without Allow", name)
		}
		return
	}
	p := a.Check(t, name, o)
	if a.Status != 405 || !p.Names(method) {
		t.Errorf("%s: %d %.200s, want 405", name, a.Status, a.Body)
	}
	got := strings.Split(a.Header.Get("Allow"), ", ")
	for _, one := range right {
		if !slices.Contains(got, one) {
			t.Errorf("%s: Allow is %q, want %v", name, got, right)
		}
	}
}
