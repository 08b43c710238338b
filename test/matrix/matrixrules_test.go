package matrix_test

import (
	"fmt"
	"strconv"
	"strings"

	"certharbor.dev/certharbor/internal/apikeys"
	"certharbor.dev/certharbor/internal/app/apptest"
)

// cell is the status and the code of an answer. The zero cell stands for a
// credential that says nothing about a route.
type cell struct{ status, code int }

// The refusals of wire.md section 1.
var (
	unasked      = cell{}
	unauthorized = cell{401, 5018} // missing, invalid or expired credential
	forbidden    = cell{403, 5022} // right missing
	notFound     = cell{404, 5003} // absent, or not the caller's
	admitted     = cell{-1, 0}     // the answer is that of the route itself
)

func (c cell) String() string {
	switch {
	case c == unasked:
		return "–"
	case c.code == 0:
		return strconv.Itoa(c.status)
	}
	return fmt.Sprintf("%d/%d", c.status, c.code)
}

// The rules of the columns: what decisions.md sections 1 to 3 and 8.7 and
// wire.md sections 1 and 2 say of a credential and a route line, and nothing
// that the program answers. me says that the path came as /apiv1/me/….

// deadRule is for what proves nothing: no credential, garbage, what expired,
// was revoked, or belongs to somebody who is disabled (5018).
func deadRule(o *apptest.Operation, _ bool) cell {
	if o.Rule.TakesNone() {
		return admitted
	}
	return unauthorized
}

func sessionRule(o *apptest.Operation, _ bool) cell {
	if apptest.OfAdmins(o) {
		return forbidden // "role admin required"
	}
	if o.Rule.TakesNone() || o.Rule.TakesSession() {
		return admitted
	}
	return unauthorized // "takes device tokens only; a session or an API key there is 401/5018"
}

// adminRule is for an administrator who has just used a passkey. Of what is not
// for administrators alone, only that is tried which is another user's own.
func adminRule(o *apptest.Operation, me bool) cell {
	switch {
	case apptest.OfAdmins(o):
		return admitted
	case o.OfUser() && !me && o.Rule.TakesSession():
		return forbidden // "no exception": the objects of others are not for administrators
	}
	return unasked
}

// weakAdminRule is for an administrator without a fresh passkey, who reads.
func weakAdminRule(o *apptest.Operation, _ bool) cell {
	switch {
	case !apptest.OfAdmins(o):
		return unasked
	case o.Method != "GET":
		return cell{403, 5034}
	}
	return admitted
}

// staleRule is for the user's own session an hour after the sign-in. Of what it
// is not too old for, only what changes nothing is tried.
func staleRule(o *apptest.Operation, me bool) cell {
	c := sessionRule(o, me)
	switch {
	case needsProof(o): // register/verify asks as well, see freshProof
		return cell{403, 5034}
	case c == admitted && o.Method != "GET":
		return unasked
	}
	return c
}

// otherSessionRule: "a user_id that is not the caller's: 403/5022. An object
// that is not the caller's: 404/5003". A path without either is the other's own.
func otherSessionRule(o *apptest.Operation, me bool) cell {
	switch {
	case o.Rule.TakesNone():
		return admitted
	case !o.Rule.TakesSession():
		return unauthorized
	case apptest.OfAdmins(o), o.OfUser() && !me:
		return forbidden
	case o.Line() == apptest.NotImplemented:
		return unasked
	case len(o.Objects()) > 0:
		return notFound
	}
	return unasked
}

// keyRuleOf is the common part of all good keys; the second value says that the
// key is one that the route takes.
func keyRuleOf(o *apptest.Operation) (cell, bool) {
	switch {
	case o.Rule.TakesNone():
		return admitted, false
	case o.Rule.TakesDevice(), o.Rule.TakesWorker():
		return unauthorized, false
	case !o.Rule.TakesKey():
		return forbidden, false // 8.7: "a key on a route that takes none: 403/5022"
	}
	return unasked, true
}

// lackingRule is for keys without the scope, or without one of the actions.
func lackingRule(o *apptest.Operation, _ bool) cell {
	if c, taken := keyRuleOf(o); !taken {
		return c
	}
	return forbidden
}

func wholeKeyRule(o *apptest.Operation, _ bool) cell {
	if c, taken := keyRuleOf(o); !taken {
		return c
	}
	if o.Line() == assignLine {
		return forbidden // section 3: "certificate-assign with *, or with none: 403/5022"
	}
	return admitted
}

const assignLine = "POST U/certificate-assign"

// namedKeyRule is for a key that is limited to the object of the path.
func namedKeyRule(o *apptest.Operation, _ bool) cell {
	c, taken := keyRuleOf(o)
	scope, _, object := o.Takes()
	switch {
	case !taken:
		return c
	case !byObject(scope):
		return unasked
	case makes(o):
		return forbidden // what is made anew is no object of the key's
	case object == "" && !seesNamed(o):
		return unasked
	}
	return admitted
}

// makes reports whether the route makes an object of the scope.
func makes(o *apptest.Operation) bool {
	return o.Method == "POST" && strings.Count(o.Path, "/") == strings.Count(apptest.OwnPath, "/")+1 && o.Rule.TakesSession()
}

// seesNamed reports whether a route without On takes keys for named objects:
// lists, which show those alone (8.7), and what finds its object by the key or
// by a public id.
func seesNamed(o *apptest.Operation) bool { return o.Line() != apptest.NotImplemented }

// otherObjectRule is for a key that is limited to another object.
func otherObjectRule(o *apptest.Operation, _ bool) cell {
	c, taken := keyRuleOf(o)
	scope, _, object := o.Takes()
	switch {
	case !taken:
		return c
	case !byObject(scope):
		return unasked
	case makes(o):
		return forbidden
	case o.Line() == apptest.NotImplemented, o.Method == "GET" && object == "" && !strings.Contains(o.Path, "by-public-id"):
		return admitted // a list, which is empty
	}
	return notFound // section 3: "a key limited to one object gets 404/5003 for any other"
}

// otherKeyRule is for the key of another user that may do everything.
func otherKeyRule(o *apptest.Operation, me bool) cell {
	c, taken := keyRuleOf(o)
	switch {
	case !taken:
		return c
	case o.OfUser() && !me:
		return forbidden
	case o.Line() == assignLine:
		return forbidden
	case o.Line() == apptest.NotImplemented:
		return unasked
	case len(o.Objects()) > 0:
		return notFound
	}
	return unasked
}

func byObject(scope string) bool {
	for _, s := range apikeys.Catalog() {
		if s.Name == scope {
			return s.ByObject
		}
	}
	return false
}

func deviceRule(o *apptest.Operation, _ bool) cell {
	if o.Rule.TakesNone() || o.Rule.TakesDevice() {
		return admitted
	}
	return unauthorized
}

// otherDeviceRule: a device sees what is assigned to it, and its own settings.
func otherDeviceRule(o *apptest.Operation, _ bool) cell {
	switch c := deviceRule(o, false); {
	case !o.Rule.TakesDevice():
		return c
	case len(o.Objects()) > 0:
		return notFound
	}
	return unasked
}

// goneDeviceRule: wire.md section 2, "device exists, belongs to sub, is ACTIVE
// (403/5022)", after the signature and exp.
func goneDeviceRule(o *apptest.Operation, _ bool) cell {
	if o.Rule.TakesDevice() {
		return forbidden
	}
	return deadRule(o, false)
}
