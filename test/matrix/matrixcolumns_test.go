package matrix_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/app/apptest"
)

// matrixColumn is one kind of credential.
type matrixColumn struct {
	name, meaning string
	rule          func(o *apptest.Operation, me bool) cell
	// with are the credentials of the kind, which must all be answered alike, of
	// r where they are the user's own. None: the column has nothing for the route.
	with func(o *apptest.Operation, r *apptest.Resident) []*apptest.Caller
	// owner is whose objects are in the paths of what is admitted: one person
	// for each column that changes something. nil: alice, and nothing is changed.
	owner *apptest.Resident
}

// always is the same credentials for every route.
func always(callers ...*apptest.Caller) func(*apptest.Operation, *apptest.Resident) []*apptest.Caller {
	return func(*apptest.Operation, *apptest.Resident) []*apptest.Caller { return callers }
}

// makeColumns is every kind of credential, in the order of the document.
func (m *matrix) makeColumns(t *testing.T) []matrixColumn {
	t.Helper()
	d, junk := m.deadOnes(t), m.garbage()
	dead := func(name, meaning string, who *apptest.Caller) matrixColumn {
		return matrixColumn{name: name, meaning: meaning, rule: deadRule, with: always(who)}
	}
	return []matrixColumn{
		dead("none", "no credential at all", m.Anonymous()),
		{name: "junk", meaning: strconv.Itoa(len(junk)) + " bearers and cookies that are no credential: empty, unknown, cut short, too long, unsigned, forged, in the wrong place", rule: deadRule, with: always(junk...)},
		{name: "session", meaning: "the user's own session", rule: sessionRule, with: m.ownSession, owner: m.Alice},
		{name: "s:stale", meaning: "the user's own session, an hour after the sign-in; what it is not too old for was tried with GET alone", rule: staleRule, with: m.staleSession},
		{name: "s:other", meaning: "the session of another user", rule: otherSessionRule, with: m.otherSession},
		{name: "s:admin", meaning: "the session of an administrator who has just used a passkey; the objects are another user's", rule: adminRule, with: m.adminSession},
		{name: "s:admin aal1", meaning: "the session of an administrator who has just entered the password", rule: weakAdminRule, with: m.adminAtAAL1},
		{name: "s:admin stale", meaning: "the session of an administrator who used a passkey an hour ago", rule: weakAdminRule, with: m.staleAdmin},
		dead("s:expired", "a session that nobody used for 31 days", d.lateSession),
		dead("s:ended", "a session that was signed out", d.endedSession),
		dead("s:disabled", "the session of a user who was disabled", d.disabledSession),
		{name: "key", meaning: "an API key of the user for everything that a key may be for", rule: wholeKeyRule, with: m.wholeKey, owner: m.Bob},
		{name: "k:object", meaning: "a key with the scope and all its actions for the object in the path alone", rule: namedKeyRule, with: m.namedKeys, owner: m.carol},
		{name: "k:other object", meaning: "the same for two other objects: one of another user, and one that does not exist", rule: otherObjectRule, with: m.otherObjectKeys},
		{name: "k:no scope", meaning: "a key for everything but the scope of the route", rule: lackingRule, with: m.keysWithoutScope},
		{name: "k:no action", meaning: "keys with the scope, each without one of the actions that the route needs", rule: lackingRule, with: m.keysWithoutAction},
		{name: "k:other", meaning: "a key of another user for everything", rule: otherKeyRule, with: always(m.key(m.Bob, apptest.Everything()...))},
		dead("k:expired", "a key for everything that has expired", d.lateKey),
		dead("k:revoked", "a key for everything that was deleted", d.revokedKey),
		dead("k:disabled", "a key for everything of a user who was disabled", d.disabledKey),
		{name: "device", meaning: "the access token of a device of the user", rule: deviceRule, with: always(m.Alice.Device.Caller)},
		{name: "d:other", meaning: "the access token of a device of another user", rule: otherDeviceRule, with: always(m.Bob.Device.Caller)},
		dead("d:expired", "an access token that has expired", d.lateDevice),
		{name: "d:deleted", meaning: "the access token of a device that was deleted", rule: goneDeviceRule, with: always(d.deletedDevice)},
		{name: "d:disabled", meaning: "the access token of a device whose user was disabled", rule: goneDeviceRule, with: always(d.disabledDevice)},
	}
}

// objectOf is the path parameter that names an object of the scope.
var objectOf = map[string]string{
	"certificates": "certificate_id", "devices": "device_id", "acme_accounts": "acme_account_id", "cas": "ca_id", "service_webhooks": "webhook_id",
	"ForInstallConfigUpdate": "device_id",
}

// key gives the user's key with these permissions, made once.
func (m *matrix) key(r *apptest.Resident, entries ...map[string]any) *apptest.Caller {
	name := strconv.FormatInt(r.UserID, 10) + apptest.Encoded(entries)
	if m.made[name] == nil {
		m.made[name] = m.freshSession(r).APIKey(entries...)
	}
	return m.made[name].Caller
}

// ownSession is a new one each time, since some routes end it.
func (m *matrix) ownSession(_ *apptest.Operation, r *apptest.Resident) []*apptest.Caller {
	return []*apptest.Caller{m.freshSession(r)}
}

func (m *matrix) staleSession(_ *apptest.Operation, r *apptest.Resident) []*apptest.Caller {
	return []*apptest.Caller{m.SessionSince(m.db, r, time.Now().Add(-time.Hour))}
}

func (m *matrix) adminSession(*apptest.Operation, *apptest.Resident) []*apptest.Caller {
	return []*apptest.Caller{m.SessionWith(m.db, m.Admin, time.Now(), access.AAL2)}
}

func (m *matrix) adminAtAAL1(*apptest.Operation, *apptest.Resident) []*apptest.Caller {
	return []*apptest.Caller{m.SessionWith(m.db, m.Admin, time.Now(), "aal1")}
}

func (m *matrix) staleAdmin(*apptest.Operation, *apptest.Resident) []*apptest.Caller {
	return []*apptest.Caller{m.SessionWith(m.db, m.Admin, time.Now().Add(-time.Hour), access.AAL2)}
}

func (m *matrix) otherSession(o *apptest.Operation, _ *apptest.Resident) []*apptest.Caller {
	return m.ownSession(o, m.Bob)
}

func (m *matrix) wholeKey(_ *apptest.Operation, r *apptest.Resident) []*apptest.Caller {
	return []*apptest.Caller{m.key(r, apptest.Everything()...)}
}

func (m *matrix) namedKeys(o *apptest.Operation, r *apptest.Resident) []*apptest.Caller {
	scope := named(o)
	return []*apptest.Caller{m.key(r, apptest.Entry(scope, m.ids(o, r)[objectOf[scope]], apptest.ActionsOf(scope)...))}
}

func (m *matrix) otherObjectKeys(o *apptest.Operation, r *apptest.Resident) []*apptest.Caller {
	scope := named(o)
	return []*apptest.Caller{
		m.key(r, apptest.Entry(scope, m.ids(o, m.Bob)[objectOf[scope]], apptest.ActionsOf(scope)...)),
		m.key(r, apptest.Entry(scope, apptest.AbsentID(objectOf[scope]), apptest.ActionsOf(scope)...)),
	}
}

// named is a scope of named objects: the route's, where it has one.
func named(o *apptest.Operation) string {
	if scope, _, _ := o.Takes(); byObject(scope) {
		return scope
	}
	return "certificates"
}

func (m *matrix) keysWithoutScope(o *apptest.Operation, r *apptest.Resident) []*apptest.Caller {
	scope, _, _ := o.Takes()
	entries := slices.DeleteFunc(apptest.Everything(), func(e map[string]any) bool { return e["obtype"] == scope })
	return []*apptest.Caller{m.key(r, entries...)}
}

func (m *matrix) keysWithoutAction(o *apptest.Operation, r *apptest.Resident) (keys []*apptest.Caller) {
	scope, actions, _ := o.Takes()
	if scope == "" {
		return m.keysWithoutScope(o, r)
	}
	for _, missing := range actions {
		rest := slices.DeleteFunc(slices.Clone(apptest.ActionsOf(scope)), func(action string) bool { return action == missing })
		if len(rest) > 0 {
			keys = append(keys, m.key(r, apptest.Entry(scope, "*", rest...)))
		}
	}
	return keys
}
