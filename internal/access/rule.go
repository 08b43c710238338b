package access

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/fault"
)

// Rule names the credentials that a route accepts. Make one with Public,
// Optional, Session, Key, Device or Worker.
type Rule struct {
	public   bool
	optional bool // public, but a session is recognised when there is one
	session  bool
	device   bool
	worker   bool
	scope    string   // scope of a key, empty: no key is taken
	actions  []string // all of these are needed
	object   string   // path parameter that a key's obid must match
	admin    bool     // the person must be an administrator
	fresh    bool     // who has used a passkey within ProofAge
}

// Public takes no credential and ignores one that is sent.
func Public() Rule { return Rule{public: true} }

// Optional is public, but recognises a session when a valid one is sent.
func Optional() Rule { return Rule{public: true, optional: true} }

// Session takes a person's session.
func Session() Rule { return Rule{session: true} }

// Admin takes the session of an administrator. A path parameter user_id is then
// the user who is looked after, not the caller.
func Admin() Rule { return Rule{session: true, admin: true} }

// Key takes an API key alone, with the scope and all of the actions.
func Key(scope string, actions ...string) Rule { return Rule{}.OrKey(scope, actions...) }

// Device takes a device access token alone.
func Device() Rule { return Rule{device: true} }

// Worker takes a worker token alone.
func Worker() Rule { return Rule{worker: true} }

// OrKey also takes an API key with the scope and all of the actions.
func (r Rule) OrKey(scope string, actions ...string) Rule {
	r.scope, r.actions = scope, actions
	return r
}

// On says which path parameter names the object that a key must be granted,
// for example On("certificate_id"). Without it a grant for any object admits
// the call and the service filters by Caller.All.
func (r Rule) On(parameter string) Rule {
	r.object = parameter
	return r
}

// Fresh also asks for a passkey used within ProofAge, whether or not the person
// has one: a password alone never does what the route does.
func (r Rule) Fresh() Rule {
	r.fresh = true
	return r
}

// TakesNone reports whether the route needs no credential.
func (r Rule) TakesNone() bool { return r.public }

// Recognises reports whether a session is looked for although none is needed.
func (r Rule) Recognises() bool { return r.optional }

// TakesSession reports whether a person's session is accepted.
func (r Rule) TakesSession() bool { return r.session }

// TakesKey reports whether an API key is accepted.
func (r Rule) TakesKey() bool { return r.scope != "" }

// TakesDevice reports whether a device access token is accepted.
func (r Rule) TakesDevice() bool { return r.device }

// TakesWorker reports whether a worker token is accepted.
func (r Rule) TakesWorker() bool { return r.worker }

// TakesAdmins reports whether the person must be an administrator.
func (r Rule) TakesAdmins() bool { return r.admin }

// NeedsFresh reports whether a passkey must have been used within ProofAge.
func (r Rule) NeedsFresh() bool { return r.fresh }

// Object is the path parameter set with On.
func (r Rule) Object() string { return r.object }

// Admit decides about an authenticated caller. object is the value of the path
// parameter named by On, now the time that the age of a proof is taken from. A
// key without the right gets 403/5022; a key limited to other objects gets the
// answer for an object that does not exist. A person who is no administrator
// gets 403/5022 where one is needed, and an administrator without a fresh
// passkey 403/5034 STEP_UP_REQUIRED where that is needed.
func (r Rule) Admit(c *Caller, object string, now func() time.Time) error {
	if c.Kind != KindKey {
		return r.admitPerson(c, now)
	}
	if r.scope == "" {
		return fault.Forbidden("This endpoint does not take API keys; sign in with a session.")
	}
	granted := true
	for _, action := range r.actions {
		all, ids := c.All(r.scope, action)
		if !all && len(ids) == 0 {
			return fault.Forbidden("The API key lacks the required permissions: " + r.scope + " " + action + ".")
		}
		if r.object != "" && !all {
			id, err := strconv.ParseInt(object, 10, 64)
			granted = granted && err == nil && c.May(r.scope, action, id)
		}
	}
	if !granted {
		return fault.NotFound(Noun(r.object))
	}
	return nil
}

func (r Rule) admitPerson(c *Caller, now func() time.Time) error {
	if r.admin && !slices.Contains(c.Roles, RoleAdmin) {
		return fault.Forbidden("This endpoint is for administrators.")
	}
	if r.fresh && !c.Fresh(now()) {
		return &fault.Error{
			Code: fault.CodeStepUpRequired, Key: "STEP_UP_REQUIRED", Params: map[string]any{"acr": AAL2},
			What: "This needs a passkey, used within the last 15 minutes: POST /auth/webauthn/step-up/options. Without a passkey, register one at /account first.",
		}
	}
	return nil
}

// Noun turns the name of a path parameter into the noun of its answers:
// "acme_account_id" is an "acme account".
func Noun(parameter string) string {
	noun := strings.TrimSuffix(parameter, "_id")
	return strings.ReplaceAll(noun, "_", " ")
}

// String describes the rule for the golden list of routes.
func (r Rule) String() string {
	var parts []string
	if r.public {
		parts = append(parts, "public")
	}
	if r.optional {
		parts = append(parts, "session?")
	}
	if r.session {
		session := "session"
		if r.admin {
			session += " of admin"
		}
		if r.fresh {
			session += " at fresh " + AAL2
		}
		parts = append(parts, session)
	}
	if r.device {
		parts = append(parts, "device")
	}
	if r.worker {
		parts = append(parts, "worker")
	}
	if r.scope != "" {
		key := "key " + r.scope + ":" + strings.Join(r.actions, "+")
		if r.object != "" {
			key += " on " + r.object
		}
		parts = append(parts, key)
	}
	return strings.Join(parts, " | ")
}
