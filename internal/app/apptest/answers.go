package apptest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// inside are words that only the inside of the program knows.
var inside = regexp.MustCompile(`goroutine|\.go:\d|panic|runtime error|cannot unmarshal|interface ?\{|map\[|strconv\.|json:|huma|sqlc|modernc|pgx|pgconn|SQLSTATE|SQLITE|(?i:\b(select|insert into|update|delete from) .* (from|values|set|where) )|\bint64\b|\bfloat64\b|\*?\b(web|certs|issuance|devices|installs|webhooks|acmeaccounts|identity|feed)\.[A-Z]|<nil>|%!`)

// statuses are the codes that may stand under a status (decisions.md section 1).
var statuses = map[int][]int{
	400: {5000}, 401: {5018, 10003}, 403: {5022, 5032, 5034}, 404: {5003}, 405: {5000}, 409: {5030, 5031, 5033, 40901},
	413: {5000}, 429: {5013}, 501: {5010},
}

// Problem is the error member of an answer.
type Problem struct {
	Code   int
	What   string
	Key    string
	Params map[string]any
}

// Check requires of any answer what every answer must be. It returns the
// problem of a failure, nil otherwise. name says which request it was.
func (a *Answer) Check(t *testing.T, name string, o *Operation) *Problem {
	t.Helper()
	if a.Header.Get("X-Request-Id") == "" {
		t.Errorf("%s: no X-Request-Id", name)
	}
	if a.Status < 400 {
		a.checkSuccess(t, name, o)
		return nil
	}
	var envelope struct{ Error *Problem }
	strict := json.NewDecoder(bytes.NewReader(a.Body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&envelope); err != nil || envelope.Error == nil || strict.More() {
		t.Errorf("%s: %d without the envelope: %.300s", name, a.Status, a.Body)
		return &Problem{}
	}
	p := envelope.Error
	switch {
	case !slices.Contains(statuses[a.Status], p.Code):
		t.Errorf("%s: %d with code %d: %s", name, a.Status, p.Code, a.Body)
	case a.Header.Get("Content-Type") != "application/json":
		t.Errorf("%s: an error as %q", name, a.Header.Get("Content-Type"))
	case strings.TrimSpace(p.What) == "" || len(p.What) > 1000:
		t.Errorf("%s: what is %.2000q", name, p.What)
	case inside.MatchString(p.What):
		t.Errorf("%s: what tells the inside: %s", name, p.What)
	case a.Status == 401 && a.Header.Get("WWW-Authenticate") == "":
		t.Errorf("%s: 401 without WWW-Authenticate", name)
	case a.Status == 429 && (a.Header.Get("Retry-After") == "" || p.Params["retry_after"] == nil):
		t.Errorf("%s: 429 without Retry-After: %s", name, a.Body)
	}
	return p
}

func (a *Answer) checkSuccess(t *testing.T, name string, o *Operation) {
	t.Helper()
	if o != nil && o.Raw && o.Method == http.MethodGet && (a.Status == http.StatusFound || a.Status == http.StatusSeeOther) {
		return // to the name of this host that passkeys need, or to a provider
	}
	if !slices.Contains([]int{200, 201, 204}, a.Status) {
		t.Errorf("%s: status %d", name, a.Status)
	}
	if a.Status == 204 || o == nil || o.Raw {
		return
	}
	var envelope struct{ Data *json.RawMessage }
	if err := json.Unmarshal(a.Body, &envelope); err != nil || envelope.Data == nil {
		t.Errorf("%s: %d without data: %.300s", name, a.Status, a.Body)
	}
	if a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: data as %q", name, a.Header.Get("Content-Type"))
	}
}

// Names reports whether what names one of the members.
func (p *Problem) Names(members ...string) bool {
	return p != nil && slices.ContainsFunc(members, func(member string) bool { return strings.Contains(p.What, member) })
}

// Members are the names of all members of a schema, at any depth.
func (s *Schema) Members() []string {
	if s == nil {
		return nil
	}
	names := s.Items.Members()
	for name, property := range s.Properties {
		names = append(append(names, name), property.Members()...)
	}
	return names
}

func Decode(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
}
