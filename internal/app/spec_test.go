package app_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/access"
)

// schema is what these tests read of a schema of the OpenAPI document.
type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 any                `json:"type"` // a name, a list of names, or absent: any
	Properties           map[string]*schema `json:"properties"`
	Required             []string           `json:"required"`
	Items                *schema            `json:"items"`
	Enum                 []any              `json:"enum"`
	MinLength            int                `json:"minLength"` //nolint:tagliatelle // OpenAPI's
	Minimum              float64            `json:"minimum"`
	AdditionalProperties any                `json:"additionalProperties"` //nolint:tagliatelle // OpenAPI's
}

// takes reports whether a value of the JSON type may stand here.
func (s *schema) takes(jsonType string) bool {
	switch t := s.Type.(type) {
	case string:
		return t == jsonType
	case []any:
		return slices.Contains(t, any(jsonType))
	}
	return true
}

// operation is one mounted route with what the document says about its input.
type operation struct {
	method, path string
	rule         access.Rule
	raw          bool
	query        map[string]*schema
	body         *schema // nil: takes none
	bodyRequired bool
	bodySize     int // the largest in bytes
}

func (o *operation) line() string { return o.method + " " + strings.Replace(o.path, ownPath, "U", 1) }

// ownPath is written U in the tables of these tests.
const ownPath = "/apiv1/users/{user_id}"

var parameterPattern = regexp.MustCompile(`\{([a-z0-9_]+)\}|\*`)

// parameters are the names of the path parameters; "*" is a wildcard.
func (o *operation) parameters() []string {
	var names []string
	for _, m := range parameterPattern.FindAllStringSubmatch(o.path, -1) {
		names = append(names, m[1])
	}
	return names
}

// rawQueries are the query parameters of the routes that the document does not know.
var rawQueries = map[string][]string{
	"GET U/certificates/{certificate_id}/export": {"format"},
	"GET /device":                    {"user_code"},
	"GET /auth/github":               {"to"},
	"GET /auth/github/callback":      {"state", "code", "error", "iss"},
	"GET /auth/weixin":               {"to"},
	"GET /auth/weixin/callback":      {"state", "code"},
	"GET /auth/oidc/{name}":          {"to"},
	"GET /auth/oidc/{name}/callback": {"state", "code", "error", "iss"},
}

// operations joins the list of routes with the document, so that a route that
// is added tomorrow is tested tomorrow.
func operations(t *testing.T, p *program) []*operation {
	t.Helper()
	encoded, err := p.app.Mux().OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	type parameter struct {
		In, Name string
		Schema   *schema
	}
	var document struct {
		Paths map[string]map[string]struct {
			Parameters  []parameter
			RequestBody *struct {
				Required bool
				Content  map[string]struct{ Schema *schema }
			}
		}
		Components struct{ Schemas map[string]*schema }
	}
	if err := json.Unmarshal(encoded, &document); err != nil {
		t.Fatal(err)
	}
	var all []*operation
	for _, r := range p.app.Mux().Routes() {
		o := &operation{method: r.Method, path: r.Path, rule: r.Rule, raw: r.Raw, bodySize: int(r.Body), query: map[string]*schema{}}
		described, known := document.Paths[r.Path][strings.ToLower(r.Method)]
		if !known && !r.Raw {
			t.Errorf("%s is mounted, but not in the document", o.line())
		}
		for _, q := range described.Parameters {
			if q.In == "query" {
				o.query[q.Name] = q.Schema
			}
		}
		for _, name := range rawQueries[o.line()] {
			o.query[name] = &schema{Type: "string"}
		}
		if b := described.RequestBody; b != nil {
			o.bodyRequired = b.Required
			o.body = resolve(b.Content["application/json"].Schema, document.Components.Schemas, 0)
		}
		all = append(all, o)
	}
	if len(all) < 20 {
		t.Fatalf("only %d routes", len(all))
	}
	return all
}

// resolve replaces references, down to a depth that no input reaches.
func resolve(s *schema, named map[string]*schema, depth int) *schema {
	if s == nil || depth > 8 {
		return s
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		s = named[name]
	}
	c := *s
	c.Items = resolve(s.Items, named, depth+1)
	c.Properties = map[string]*schema{}
	for name, property := range s.Properties {
		c.Properties[name] = resolve(property, named, depth+1)
	}
	return &c
}

// example is a value that the schema allows.
func example(s *schema) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.takes("object") && s.Type != nil:
		object := map[string]any{}
		for _, name := range s.Required {
			object[name] = example(s.Properties[name])
		}
		return object
	case s.takes("string"):
		return strings.Repeat("x", max(1, s.MinLength))
	case s.takes("integer"), s.takes("number"):
		return int64(max(1, s.Minimum))
	case s.takes("boolean"):
		return true
	}
	return []any{}
}
