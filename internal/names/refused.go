package names

import (
	"certharbor.dev/certharbor/internal/fault"
)

// The keys of refusals.
const (
	KeyTaken    = "NAME_TAKEN"
	KeyUnproved = "NAME_NOT_PROVED"
)

// Refused tells whether err says that the user may not order a name.
func Refused(err error) bool {
	f := fault.As(err)
	return f != nil && (f.Key == KeyTaken || f.Key == KeyUnproved)
}

func refusal(key, name, what string, args ...any) *fault.Error {
	f := fault.Conflict(what, args...)
	f.Key = key
	f.Params = map[string]any{"name": name}
	return f
}

func taken(name string) *fault.Error {
	return refusal(KeyTaken, name, "%s belongs to another user of this server. If the domain is yours, prove it with a TXT record: add the name to your names.", name)
}

func reserved(name string) *fault.Error {
	if isIP(name) {
		return refusal(KeyTaken, name, "%s is an address; administrators alone order certificates for addresses.", name)
	}
	return refusal(KeyTaken, name, "%s is a name of this server itself; administrators alone order certificates for it.", name)
}

// unproved says what the user must set. A name that no public suffix is above
// has no owner whom a record could show.
func unproved(name string, r TXTRecord) *fault.Error {
	if !listed(name) {
		return refusal(KeyUnproved, name, "%s is not yours yet and stands below no public suffix, so that no record can prove it; an administrator gives such names.", name)
	}
	f := refusal(KeyUnproved, name, "%s is not proved to be yours: set the TXT record %s to %q, then try again.", name, r.Name, r.Value)
	f.Params["record"], f.Params["value"] = r.Name, r.Value
	return f
}
