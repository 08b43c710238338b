package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode"
)

// maxDepth is how deep the value of a body may be nested.
const maxDepth = 64

var errSyntax = errors.New("is not valid JSON; send one JSON value with Content-Type application/json")

// misfit is what no rule of an input type would find. Its text starts with
// "body." and the member, which sentence takes apart.
func misfit(member, what string) error {
	if member == "" {
		return errors.New(what)
	}
	return errors.New("body." + member + ": " + what)
}

// unmarshal decodes a body. huma calls it twice: into any for the validation,
// where what no column can hold is refused, then into the input type.
func unmarshal(data []byte, v any) error {
	tree, whole := v.(*any)
	err := json.Unmarshal(data, v)
	switch typeErr, mistyped := errors.AsType[*json.UnmarshalTypeError](err); {
	case mistyped && whole: // the one thing that any does not take
		return misfit(hugeNumber(data), "is a number out of range")
	case mistyped:
		return misfit(strings.TrimPrefix(typeErr.Field, "body."), "does not take a JSON "+strings.Fields(typeErr.Value)[0])
	case err != nil && whole:
		return errSyntax
	case err != nil || !whole: // a rule of an input type's own UnmarshalJSON, or none
		return err
	}
	if member, what := inspect(*tree, 0); what != "" {
		return misfit(member, what)
	}
	if member := repeated(data); member != "" {
		return misfit(member, "is there twice")
	}
	return nil
}

// inspect refuses NUL, which PostgreSQL's text cannot hold, and deep nesting.
func inspect(v any, depth int) (member, what string) {
	const nul = "holds a NUL character, which is not accepted"
	if depth > maxDepth {
		return "", "is nested more than 64 levels deep"
	}
	switch v := v.(type) {
	case string:
		if strings.IndexByte(v, 0) >= 0 {
			return "", nul
		}
	case []any:
		for i, item := range v {
			if member, what := inspect(item, depth+1); what != "" {
				return join("["+strconv.Itoa(i)+"]", member), what
			}
		}
	case map[string]any:
		for name, item := range v {
			if strings.IndexByte(name, 0) >= 0 {
				return "", nul
			}
			if member, what := inspect(item, depth+1); what != "" {
				return join(name, member), what
			}
		}
	}
	return "", ""
}

// join names a member of a member, as far as a person wants to read it.
func join(outer, inner string) string {
	if len(outer) > 100 {
		outer = strings.ToValidUTF8(outer[:100], "") + "…"
	}
	if inner == "" || len(outer)+len(inner) > 60 { // the outermost alone tells enough
		return outer
	}
	if inner[0] == '[' {
		return outer + inner
	}
	return outer + "." + inner
}

// hugeNumber names the member whose number no float64 holds.
func hugeNumber(data []byte) string {
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if decoder.Decode(&tree) != nil {
		return ""
	}
	member, _ := findHuge(tree)
	return member
}

func findHuge(v any) (member string, found bool) {
	switch v := v.(type) {
	case json.Number:
		_, err := v.Float64()
		return "", err != nil
	case []any:
		for i, item := range v {
			if member, found := findHuge(item); found {
				return join("["+strconv.Itoa(i)+"]", member), true
			}
		}
	case map[string]any:
		for name, item := range v {
			if member, found := findHuge(item); found {
				return join(name, member), true
			}
		}
	}
	return "", false
}

// repeated names a member that the body holds twice (RFC 8259 section 4): the
// validation would see one of the two and the handler the other. Names are
// equal when they differ in case alone, as encoding/json has it. Further down,
// where maps such as environments have names of their own, the areas judge
// what was decoded.
func repeated(data []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return ""
	}
	names := map[string]struct{}{}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return ""
		}
		if _, twice := names[fold(name)]; twice {
			return join(name, "")
		}
		names[fold(name)] = struct{}{}
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return ""
		}
	}
	return ""
}

// fold gives names that encoding/json takes for each other the same text.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		smallest := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			smallest = min(smallest, next)
		}
		return smallest
	}, name)
}
