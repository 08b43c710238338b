package apptest

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Place stands for the value that is put into a good body.
const Place = "@@PLACE@@"

// JSONType is the type that OpenAPI gives to the JSON text.
func JSONType(raw string) string {
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

// Refuses reports whether the type alone forbids the value. An optional member
// that is null counts as absent.
func (s *Schema) Refuses(raw string, required bool) bool {
	t := JSONType(raw)
	switch {
	case t == "null":
		return required && !s.Takes("null")
	case t == "integer":
		return !s.Takes("integer") && !s.Takes("number")
	case t == "array" && s.Takes("array") && s.Items != nil && s.Type != nil:
		return raw == "[null]" && !s.Items.Takes("null")
	}
	return !s.Takes(t)
}

// Spots calls visit for every member, with the text of the body in which the
// member's value is the place.
func Spots(s *Schema, good any, whole func(any) string, visit func(leaf string, at *Schema, required bool, body string)) {
	switch value := good.(type) {
	case map[string]any:
		for name, at := range s.Properties {
			changed := func(v any) string {
				c := maps.Clone(value)
				c[name] = v
				return whole(c)
			}
			visit(name, at, slices.Contains(s.Required, name), changed(Place))
			if inner, ok := value[name]; ok {
				Spots(at, inner, changed, visit)
			}
		}
	case []any:
		if len(value) > 0 && s.Items != nil {
			Spots(s.Items, value[0], func(v any) string { return whole([]any{v}) }, visit)
		}
	}
}

func Encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
