package apptest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/access"
)

// Schema is what these tests read of a schema of the OpenAPI document.
type Schema struct {
	Ref                  string             `json:"$ref"`
	Type                 any                `json:"type"` // a name, a list of names, or absent: any
	Properties           map[string]*Schema `json:"properties"`
	Required             []string           `json:"required"`
	Items                *Schema            `json:"items"`
	Enum                 []any              `json:"enum"`
	MinLength            int                `json:"minLength"` //nolint:tagliatelle // OpenAPI's
	Minimum              float64            `json:"minimum"`
	AdditionalProperties any                `json:"additionalProperties"` //nolint:tagliatelle // OpenAPI's
}

// Takes reports whether a value of the JSON type may stand here.
func (s *Schema) Takes(jsonType string) bool {
	switch t := s.Type.(type) {
	case string:
		return t == jsonType
	case []any:
		return slices.Contains(t, any(jsonType))
	}
	return true
}

// Operation is one mounted route with what the document says about its input.
type Operation struct {
	Method, Path string
	Rule         access.Rule
	Raw          bool
	Query        map[string]*Schema
	Body         *Schema // nil: takes none
	BodyRequired bool
	BodySize     int // the largest in bytes
}

func (o *Operation) Line() string { return o.Method + " " + strings.Replace(o.Path, OwnPath, "U", 1) }

// OwnPath is written U in the tables of these tests.
const OwnPath = "/apiv1/users/{user_id}"

var parameterPattern = regexp.MustCompile(`\{([a-z0-9_]+)\}|\*`)

// Parameters are the names of the path parameters; "*" is a wildcard.
func (o *Operation) Parameters() []string {
	var names []string
	for _, m := range parameterPattern.FindAllStringSubmatch(o.Path, -1) {
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

// Operations joins the list of routes with the document, so that a route that
// is added tomorrow is tested tomorrow.
func Operations(t *testing.T, p *Program) []*Operation {
	t.Helper()
	encoded, err := p.App.Mux().OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	type parameter struct {
		In, Name string
		Schema   *Schema
	}
	var document struct {
		Paths map[string]map[string]struct {
			Parameters  []parameter
			RequestBody *struct {
				Required bool
				Content  map[string]struct{ Schema *Schema }
			}
		}
		Components struct{ Schemas map[string]*Schema }
	}
	if err := json.Unmarshal(encoded, &document); err != nil {
		t.Fatal(err)
	}
	var all []*Operation
	for _, r := range p.App.Mux().Routes() {
		o := &Operation{Method: r.Method, Path: r.Path, Rule: r.Rule, Raw: r.Raw, BodySize: int(r.Body), Query: map[string]*Schema{}}
		described, known := document.Paths[r.Path][strings.ToLower(r.Method)]
		if !known && !r.Raw {
			t.Errorf("%s is mounted, but not in the document", o.Line())
		}
		for _, q := range described.Parameters {
			if q.In == "query" {
				o.Query[q.Name] = q.Schema
			}
		}
		for _, name := range rawQueries[o.Line()] {
			o.Query[name] = &Schema{Type: "string"}
		}
		if b := described.RequestBody; b != nil {
			o.BodyRequired = b.Required
			o.Body = resolve(b.Content["application/json"].Schema, document.Components.Schemas, 0)
		}
		all = append(all, o)
	}
	if len(all) < 20 {
		t.Fatalf("only %d routes", len(all))
	}
	return all
}

// resolve replaces references, down to a depth that no input reaches.
func resolve(s *Schema, named map[string]*Schema, depth int) *Schema {
	if s == nil || depth > 8 {
		return s
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		s = named[name]
	}
	c := *s
	c.Items = resolve(s.Items, named, depth+1)
	c.Properties = map[string]*Schema{}
	for name, property := range s.Properties {
		c.Properties[name] = resolve(property, named, depth+1)
	}
	return &c
}

// example is a value that the schema allows.
func example(s *Schema) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Takes("object") && s.Type != nil:
		object := map[string]any{}
		for _, name := range s.Required {
			object[name] = example(s.Properties[name])
		}
		return object
	case s.Takes("string"):
		return strings.Repeat("x", max(1, s.MinLength))
	case s.Takes("integer"), s.Takes("number"):
		return int64(max(1, s.Minimum))
	case s.Takes("boolean"):
		return true
	}
	return []any{}
}
