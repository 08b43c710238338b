package apptest

import (
	"regexp"
	"strings"
)

var keyRule = regexp.MustCompile(`key (\w+):([a-z+]+)(?: on (\w+))?`)

// Takes is what the route wants of a key; empty when it takes none.
func (o *Operation) Takes() (scope string, actions []string, object string) {
	m := keyRule.FindStringSubmatch(o.Rule.String())
	if m == nil {
		return "", nil, ""
	}
	return m[1], strings.Split(m[2], "+"), m[3]
}

// Objects are the path parameters that name something of a user's.
func (o *Operation) Objects() (names []string) {
	for _, name := range o.Parameters() {
		if name != "user_id" && name != "provider" && name != "name" {
			names = append(names, name)
		}
	}
	return names
}

func (o *Operation) OfUser() bool { return strings.HasPrefix(o.Path, OwnPath) }

// OfAdmins are the routes for administrators.
func OfAdmins(o *Operation) bool { return strings.HasPrefix(o.Path, "/apiv1/admin/") }
