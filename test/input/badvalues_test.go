package input_test

import (
	"maps"
	"strings"

	"certharbor.dev/certharbor/internal/app/apptest"
)

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

// bad is one bad body. leaf is the member that is wrong.
type bad struct {
	leaf  string
	value string
	text  string
	must  bool // the schema alone refuses it
}

// mutations puts every bad value in the place of every member of the good body.
// Of values that are refused for their type, two of each type will do.
func mutations(s *apptest.Schema, good any) []bad {
	var list []bad
	values := badValues()
	apptest.Spots(s, good, apptest.Encoded, func(leaf string, at *apptest.Schema, required bool, body string) {
		refused := map[string]int{}
		for _, value := range values {
			must := at.Refuses(value, required)
			if must {
				refused[apptest.JSONType(value)]++
			}
			if refused[apptest.JSONType(value)] <= 2 || !must {
				list = append(list, bad{leaf, value, strings.Replace(body, `"`+apptest.Place+`"`, value, 1), must})
			}
		}
	})
	return list
}

// without are the good bodies that lack one required member, and that have an
// unknown one.
func without(s *apptest.Schema, good any) (missing []bad, unknown bad) {
	object, ok := good.(map[string]any)
	if !ok {
		return nil, bad{}
	}
	for _, name := range s.Required {
		c := maps.Clone(object)
		delete(c, name)
		missing = append(missing, bad{leaf: name, value: "(missing)", text: apptest.Encoded(c), must: true})
	}
	c := maps.Clone(object)
	c["no_such_member"] = map[string]any{"a": echo}
	return missing, bad{leaf: "no_such_member", value: "(unknown)", text: apptest.Encoded(c), must: s.AdditionalProperties == false}
}
