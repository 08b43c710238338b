package app_test

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

// problem is the error member of an answer.
type problem struct {
	Code   int
	What   string
	Key    string
	Params map[string]any
}

// check requires of any answer what every answer must be. It returns the
// problem of a failure, nil otherwise. name says which request it was.
func (a *answer) check(t *testing.T, name string, o *operation) *problem {
	t.Helper()
	if a.header.Get("X-Request-Id") == "" {
		t.Errorf("%s: no X-Request-Id", name)
	}
	if a.status < 400 {
		a.checkSuccess(t, name, o)
		return nil
	}
	var envelope struct{ Error *problem }
	strict := json.NewDecoder(bytes.NewReader(a.body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&envelope); err != nil || envelope.Error == nil || strict.More() {
		t.Errorf("%s: %d without the envelope: %.300s", name, a.status, a.body)
		return &problem{}
	}
	p := envelope.Error
	switch {
	case !slices.Contains(statuses[a.status], p.Code):
		t.Errorf("%s: %d with code %d: %s", name, a.status, p.Code, a.body)
	case a.header.Get("Content-Type") != "application/json":
		t.Errorf("%s: an error as %q", name, a.header.Get("Content-Type"))
	case strings.TrimSpace(p.What) == "" || len(p.What) > 1000:
		t.Errorf("%s: what is %.2000q", name, p.What)
	case inside.MatchString(p.What):
		t.Errorf("%s: what tells the inside: %s", name, p.What)
	case a.status == 401 && a.header.Get("WWW-Authenticate") == "":
		t.Errorf("%s: 401 without WWW-Authenticate", name)
	case a.status == 429 && (a.header.Get("Retry-After") == "" || p.Params["retry_after"] == nil):
		t.Errorf("%s: 429 without Retry-After: %s", name, a.body)
	}
	return p
}

func (a *answer) checkSuccess(t *testing.T, name string, o *operation) {
	t.Helper()
	if o != nil && o.raw && o.method == http.MethodGet && (a.status == http.StatusFound || a.status == http.StatusSeeOther) {
		return // to the name of this host that passkeys need, or to a provider
	}
	if !slices.Contains([]int{200, 201, 204}, a.status) {
		t.Errorf("%s: status %d", name, a.status)
	}
	if a.status == 204 || o == nil || o.raw {
		return
	}
	var envelope struct{ Data *json.RawMessage }
	if err := json.Unmarshal(a.body, &envelope); err != nil || envelope.Data == nil {
		t.Errorf("%s: %d without data: %.300s", name, a.status, a.body)
	}
	if a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: data as %q", name, a.header.Get("Content-Type"))
	}
}

// names reports whether what names one of the members.
func (p *problem) names(members ...string) bool {
	return p != nil && slices.ContainsFunc(members, func(member string) bool { return strings.Contains(p.What, member) })
}

// members are the names of all members of a schema, at any depth.
func (s *schema) members() []string {
	if s == nil {
		return nil
	}
	names := s.Items.members()
	for name, property := range s.Properties {
		names = append(append(names, name), property.members()...)
	}
	return names
}

func decode(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
}
