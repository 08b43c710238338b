package apikeys

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
)

// maxPermissions bounds the entries of a key.
const maxPermissions = 100

// everyObject is the obid for all objects of a scope.
const everyObject = "*"

// Permission is one permission entry (api.md "Permission entry").
type Permission struct {
	Obtype  string   `json:"obtype" maxLength:"100" doc:"A scope of GET /apiv1/permissions/catalog."`
	Obid    string   `json:"obid" maxLength:"100" doc:"* for all objects, or the id of one, as a string."`
	Actions []string `json:"actions" nullable:"false" maxItems:"100" doc:"At least one action of the scope."`
}

var (
	errEntry = errors.New("body.permissions: each entry must be an object")
	errTwice = errors.New("body.permissions: each entry takes obtype, obid and actions, each once")
)

// UnmarshalJSON implements json.Unmarshaler. It refuses a member that is there
// twice, or under a name that differs in case alone: a reader of the request
// and the server could take it for different permissions (RFC 8259 section 4).
func (p *Permission) UnmarshalJSON(raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return errEntry
	}
	members := map[string]any{"obtype": &p.Obtype, "obid": &p.Obid, "actions": &p.Actions}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		member, once := members[name.(string)]
		if !once {
			return errTwice
		}
		delete(members, name.(string))
		if err := decoder.Decode(member); err != nil {
			return err
		}
	}
	return nil
}

// normalise checks every entry and returns the permissions in the form that is
// stored: entries for the same objects made one, actions once and in the order
// of the catalog. The fault names the first bad place, for example
// permissions[1].actions[0].
func normalise(permissions []Permission) ([]Permission, error) {
	if len(permissions) == 0 {
		return nil, fault.Invalid("permissions", "must hold at least one entry")
	}
	if len(permissions) > maxPermissions {
		return nil, fault.Invalid("permissions", "takes at most %d entries", maxPermissions)
	}
	catalog := Catalog()
	var result []Permission
	for i, p := range permissions {
		place := fmt.Sprintf("permissions[%d]", i)
		scope, err := p.check(catalog, place)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(result, func(r Permission) bool { return r.Obtype == p.Obtype && r.Obid == p.Obid })
		if at < 0 {
			at = len(result)
			result = append(result, Permission{Obtype: p.Obtype, Obid: p.Obid})
		}
		merged := slices.Concat(result[at].Actions, p.Actions)
		result[at].Actions = slices.DeleteFunc(slices.Clone(scope.Actions), func(action string) bool { return !slices.Contains(merged, action) })
	}
	return result, nil
}

// check returns the scope of the entry, or the fault that names what is wrong.
func (p Permission) check(catalog []PermissionScope, place string) (PermissionScope, error) {
	at := slices.IndexFunc(catalog, func(s PermissionScope) bool { return s.Name == p.Obtype })
	if at < 0 {
		names := make([]string, len(catalog))
		for i := range catalog {
			names[i] = catalog[i].Name
		}
		return PermissionScope{}, fault.Invalid(place+".obtype", "must be one of %s", strings.Join(names, ", "))
	}
	scope := catalog[at]
	switch {
	case p.Obid == everyObject:
	case !scope.ByObject:
		return scope, fault.Invalid(place+".obid", "must be * for %s", scope.Name)
	case !isID(p.Obid):
		return scope, fault.Invalid(place+".obid", "must be * or the id of an object, as a string of digits")
	}
	if len(p.Actions) == 0 {
		return scope, fault.Invalid(place+".actions", "must hold at least one of %s", strings.Join(scope.Actions, ", "))
	}
	for i, action := range p.Actions {
		if !slices.Contains(scope.Actions, action) {
			return scope, fault.Invalid(fmt.Sprintf("%s.actions[%d]", place, i), "must be one of %s for %s", strings.Join(scope.Actions, ", "), scope.Name)
		}
	}
	return scope, nil
}

// isID tells whether the text is an id exactly as the API writes it: no sign, no
// leading zero, no blank, at most 2^63-1. Otherwise one object would have many
// names.
func isID(text string) bool {
	id, err := strconv.ParseInt(text, 10, 64)
	return err == nil && id > 0 && strconv.FormatInt(id, 10) == text
}

// grants are the permissions as package access asks them.
func grants(permissions []Permission) []access.Grant {
	list := make([]access.Grant, len(permissions))
	for i, p := range permissions {
		list[i] = access.Grant{Scope: p.Obtype, Object: p.Obid, Actions: p.Actions}
	}
	return list
}

// covers tells whether everything that the wanted permissions allow is allowed
// by the held ones already.
func covers(held, wanted []Permission) bool {
	for _, w := range wanted {
		for _, action := range w.Actions {
			if !slices.ContainsFunc(held, func(h Permission) bool {
				return h.Obtype == w.Obtype && (h.Obid == everyObject || h.Obid == w.Obid) && slices.Contains(h.Actions, action)
			}) {
				return false
			}
		}
	}
	return true
}
