package access

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// Kind is the kind of credential that a Caller presented.
type Kind int

// The kinds of credentials of api.md "Authentication".
const (
	KindSession Kind = iota + 1 // a person's session cookie
	KindKey                     // an API key, limited by its grants
	KindDevice                  // a device access token
	KindWorker                  // a worker token
)

// Grant is one permission entry of an API key.
type Grant struct {
	Scope   string   // obtype, for example "certificates"
	Object  string   // obid: "*" or a decimal id
	Actions []string // for example "read", "issue"
}

// RoleAdmin is the role of administrators.
const RoleAdmin = "admin"

// AAL2 is the level of a session whose person used a passkey.
const AAL2 = "aal2"

// ProofAge is for how long a sign-in or a step-up counts as fresh.
const ProofAge = 15 * time.Minute

// Caller is an authenticated caller. For a key, UserID is its owner.
type Caller struct {
	Kind      Kind
	UserID    int64
	SessionID int64
	DeviceID  int64
	KeyID     int64
	Grants    []Grant  // of a key
	Roles     []string // of a person
	AMR       []string // how the person signed in (RFC 8176 names)
	ACR       string   // "aal1" after a password, "aal2" after a passkey
	AuthTime  int64    // last sign-in or step-up, Unix ms
	KeyWaits  bool     // of a device: its owner has not confirmed its key yet, so no private key is for it
}

// Fresh reports whether the person has used a passkey within ProofAge.
func (c *Caller) Fresh(now time.Time) bool {
	return c.ACR == AAL2 && now.UnixMilli()-c.AuthTime <= ProofAge.Milliseconds()
}

// All reports whether the caller may use every object of the scope with the
// action; ids lists the objects otherwise. A person may always.
func (c *Caller) All(scope, action string) (all bool, ids []int64) {
	if c.Kind != KindKey {
		return true, nil
	}
	for _, g := range c.Grants {
		if g.Scope != scope || !slices.Contains(g.Actions, action) {
			continue
		}
		if g.Object == "*" {
			return true, nil
		}
		if id, err := strconv.ParseInt(g.Object, 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	return false, ids
}

// May reports whether the caller may use the object with the action.
func (c *Caller) May(scope, action string, id int64) bool {
	all, ids := c.All(scope, action)
	return all || slices.Contains(ids, id)
}

type callerKey struct{}

// With returns a context that carries the caller.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From returns the caller of the request, or nil on a public route without a
// credential.
func From(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}
