package app_test

import (
	"encoding/json"
	"strconv"
	"strings"
)

// place stands for the value that is put into a good body.
const place = "@@PLACE@@"

// echo is part of some bad values; no answer repeats it for a secret member.
const echo = "Canary-Echo-51d7"

// badValues are put where every member of every body is.
func badValues() []string {
	return []string{
		`"5"`, `5`, `-1`, `0`, `5.5`, `1e400`, `-1e400`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775809`, `1e18`,
		`true`, `null`, `[]`, `{}`, `[1]`, `[null]`, `["a",5]`, `{"a":1}`, `[[]]`,
		`""`, `" "`, `"` + echo + `"`, `"` + echo + strings.Repeat("y", 70000) + `"`,
		`"a\u0000b"`, "\"a\xffb\"", `"\ud800"`, `"\u202ea"`, `"a\nb"`, `"%s%d%n"`, `"' OR 1=1 --"`, `"../../etc/passwd"`, `"http://[::1"`,
		`"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"`, `"*.*.example.org"`, `"xn--"`,
		strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
		`[` + strings.Repeat(`"a",`, 5000) + `"a"]`,
	}
}

// jsonType is the type that OpenAPI gives to the JSON text.
func jsonType(raw string) string {
	switch raw[0] {
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	case '[':
		return "array"
	case '{':
		return "object"
	}
	if _, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return "integer"
	}
	return "number"
}

// refuses reports whether the type alone forbids the value. An optional member
// that is null counts as absent.
func (s *schema) refuses(raw string, required bool) bool {
	t := jsonType(raw)
	switch {
	case t == "null":
		return required && !s.takes("null")
	case t == "integer":
		return !s.takes("integer") && !s.takes("number")
	case t == "array" && s.takes("array") && s.Items != nil && s.Type != nil:
		return raw == "[null]" && !s.Items.takes("null")
	}
	return !s.takes(t)
}

// bad is one bad body. leaf is the member that is wrong.
type bad struct {
	leaf  string
	value string
	text  string
	must  bool // the schema alone refuses it
}

// mutations puts every bad value in the place of every member of the good body.
func mutations(s *schema, good any) []bad {
	var list []bad
	spots(s, good, true, func(v any) string { return encoded(v) }, func(leaf string, at *schema, required bool, body string) {
		for _, value := range badValues() {
			text := strings.Replace(body, `"`+place+`"`, value, 1)
			list = append(list, bad{leaf, value, text, at.refuses(value, required)})
		}
	})
	return list
}

// spots calls visit for every member, with the text of the body in which the
// member's value is the place.
func spots(s *schema, good any, root bool, whole func(any) string, visit func(leaf string, at *schema, required bool, body string)) {
	switch value := good.(type) {
	case map[string]any:
		for name, at := range s.Properties {
			changed := func(v any) string {
				c := map[string]any{name: v}
				for other, kept := range value {
					if other != name {
						c[other] = kept
					}
				}
				return whole(c)
			}
			required := false
			for _, r := range s.Required {
				required = required || r == name
			}
			visit(name, at, required, changed(place))
			if inner, ok := value[name]; ok {
				spots(at, inner, false, changed, visit)
			}
		}
	case []any:
		if len(value) > 0 && s.Items != nil {
			spots(s.Items, value[0], false, func(v any) string { return whole([]any{v}) }, visit)
		}
	}
}

func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// without are the good bodies that lack one required member, and that have an
// unknown one.
func without(s *schema, good any) (missing []bad, unknown bad) {
	object, ok := good.(map[string]any)
	if !ok {
		return nil, bad{}
	}
	for _, name := range s.Required {
		c := map[string]any{}
		for other, kept := range object {
			if other != name {
				c[other] = kept
			}
		}
		missing = append(missing, bad{leaf: name, value: "(missing)", text: encoded(c), must: true})
	}
	c := map[string]any{"no_such_member": map[string]any{"a": echo}}
	for name, kept := range object {
		c[name] = kept
	}
	return missing, bad{leaf: "no_such_member", value: "(unknown)", text: encoded(c), must: s.AdditionalProperties == false}
}
