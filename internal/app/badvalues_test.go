package app_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// place stands for the value that is put into a good body.
const place = "@@PLACE@@"

// echo is part of some bad values; no answer repeats it for a secret member. It
// is not good enough for a password: that would end the session that asks.
const echo = "canary-echo-51d7"

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
// Of values that are refused for their type, two of each type will do.
func mutations(s *schema, good any) []bad {
	var list []bad
	values := badValues()
	spots(s, good, encoded, func(leaf string, at *schema, required bool, body string) {
		refused := map[string]int{}
		for _, value := range values {
			must := at.refuses(value, required)
			if must {
				refused[jsonType(value)]++
			}
			if refused[jsonType(value)] <= 2 || !must {
				list = append(list, bad{leaf, value, strings.Replace(body, `"`+place+`"`, value, 1), must})
			}
		}
	})
	return list
}

// spots calls visit for every member, with the text of the body in which the
// member's value is the place.
func spots(s *schema, good any, whole func(any) string, visit func(leaf string, at *schema, required bool, body string)) {
	switch value := good.(type) {
	case map[string]any:
		for name, at := range s.Properties {
			changed := func(v any) string {
				c := maps.Clone(value)
				c[name] = v
				return whole(c)
			}
			visit(name, at, slices.Contains(s.Required, name), changed(place))
			if inner, ok := value[name]; ok {
				spots(at, inner, changed, visit)
			}
		}
	case []any:
		if len(value) > 0 && s.Items != nil {
			spots(s.Items, value[0], func(v any) string { return whole([]any{v}) }, visit)
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
		c := maps.Clone(object)
		delete(c, name)
		missing = append(missing, bad{leaf: name, value: "(missing)", text: encoded(c), must: true})
	}
	c := maps.Clone(object)
	c["no_such_member"] = map[string]any{"a": echo}
	return missing, bad{leaf: "no_such_member", value: "(unknown)", text: encoded(c), must: s.AdditionalProperties == false}
}
