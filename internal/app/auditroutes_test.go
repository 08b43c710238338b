package app_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
)

// traced is what a successful use of a route leaves in the audit log.
type traced struct {
	actions   string             // in their order
	why       string             // why there are none
	elsewhere string             // the test that shows it, where this one has not what it takes
	prepare   func(a *attempt)   // makes what the route needs
	body      func(*attempt) any // nil: the example of the operation
	do        func(*attempt) *answer
}

func (want traced) use(a *attempt) *answer {
	a.w.t.Helper()
	if want.prepare != nil {
		want.prepare(a)
	}
	if want.do != nil {
		return want.do(a)
	}
	if want.body != nil {
		return a.call(want.body(a))
	}
	return a.call(a.o.good(a.r))
}

// auditedRoutes has a line for every route but those that only read.
var auditedRoutes = map[string]traced{
	"POST /apiv1/device/registration": {actions: "device.register", do: register},
	"POST /apiv1/devices/self/notify": {why: "what a device reports of itself changes nothing of the user's"},

	"POST /apiv1/admin/users":                                   {actions: "user.create", body: func(*attempt) any { return map[string]any{"email": freshPublicID() + "@example.org"} }},
	"PATCH /apiv1/admin/users/{user_id}":                        {actions: "user.set_admin"},
	"DELETE /apiv1/admin/users/{user_id}":                       {actions: "user.disable user.ask_deletion", prepare: invited},
	"POST /apiv1/admin/users/{user_id}/cancel-deletion":         {actions: "user.cancel_deletion", prepare: unwanted},
	"POST /apiv1/admin/users/{user_id}/sign-out":                {actions: "user.sign_out"},
	"POST /apiv1/admin/users/{user_id}/resend-activation-email": {actions: "user.invite", prepare: invited},

	"POST U/acme-accounts":                     {actions: "acme_account.create"},
	"PUT U/acme-accounts/{acme_account_id}":    {actions: "acme_account.update"},
	"DELETE U/acme-accounts/{acme_account_id}": {actions: "acme_account.delete", prepare: newAccount},

	"POST U/apikeys":                             {actions: "apikey.create"},
	"PATCH U/apikeys/{apikey_id}":                {actions: "apikey.update"},
	"DELETE U/apikeys/{apikey_id}":               {actions: "apikey.delete", prepare: newKey},
	"POST U/certificate-assign":                  {actions: "certificate.assign", prepare: unassigned},
	"GET U/certificates/{certificate_id}/export": {actions: "certificate.export", prepare: importedCertificate},

	"POST U/certificates":                                      {actions: "certificate.create"},
	"PUT U/certificates/{certificate_id}":                      {actions: "certificate.update"},
	"DELETE U/certificates/{certificate_id}":                   {actions: "certificate.delete", prepare: newCertificate},
	"POST U/certificates/{certificate_id}/issues":              {actions: "issuance.start", prepare: newCertificate, body: forced},
	"DELETE U/certificates/{certificate_id}/issues/{issue_id}": {actions: "issuance.cancel", prepare: newIssuance},

	"POST U/devices":                                             {actions: "device.register", prepare: func(a *attempt) { a.ids["device_public_id"] = freshPublicID() }, body: enrolment},
	"DELETE U/devices/{device_id}":                               {actions: "device.delete", prepare: newDevice},
	"POST U/devices/{device_id}/confirm-key":                     {actions: "device.confirm_key", prepare: waitingKey, body: func(a *attempt) any { return namedKey(a.r) }},
	"DELETE U/devices/{device_id}/confirm-key":                   {actions: "device.refuse_key", prepare: waitingKey, body: func(*attempt) any { return nil }},
	"POST U/devices/{device_id}/certificates":                    {actions: "certificate.assign", prepare: newCertificate, body: assignment},
	"DELETE U/devices/{device_id}/certificates/{certificate_id}": {actions: "certificate.unassign", prepare: assigned},
	"PUT U/devices/{device_id}/install-config":                   {actions: "install_config.put"},
	"POST U/devices/{device_id}/install-config/restore":          {actions: "install_config.restore"},
	"POST U/install-config-update/{device_public_id}":            {actions: "install_config.patch", prepare: patchable},

	"POST U/service_webhooks":                                                 {actions: "webhook.create"},
	"PUT U/service_webhooks/{webhook_id}":                                     {actions: "webhook.update"},
	"DELETE U/service_webhooks/{webhook_id}":                                  {actions: "webhook.delete", prepare: newWebhook},
	"POST U/service_webhooks/{webhook_id}/test":                               {actions: "webhook.test", prepare: newWebhook},
	"POST U/service_webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": {actions: "webhook.redeliver"},

	"POST U/names":                               {actions: "name.begin"},
	"DELETE U/names/{name_id}":                   {actions: "name.release", prepare: newName},
	"POST U/names/{name_id}/verify":              {why: "a look-up that finds no record changes nothing; names.TestProveAName has one"},
	"POST U/names/{name_id}/grants":              {elsewhere: "names.TestGrants: it is in the logs of two users"},
	"DELETE U/names/{name_id}/grants/{grant_id}": {elsewhere: "names.TestGrants: it is in the logs of two users"},
	"POST /apiv1/admin/names":                    {elsewhere: "names.TestAdministratorsAndNames: it is in the logs of two users"},
	"PUT /apiv1/admin/names/{name_id}":           {elsewhere: "names.TestAdministratorsAndNames: it is in the logs of three users"},
	"DELETE /apiv1/admin/names/{name_id}":        {elsewhere: "names.TestAdministratorsAndNames: it is in the logs of two users"},

	"POST U/password":                {actions: "user.change_password", body: func(*attempt) any { return map[string]any{"new_password": password} }},
	"DELETE U/sessions":              {actions: "session.revoke_all", body: func(*attempt) any { return nil }},
	"DELETE U/sessions/{session_id}": {actions: "session.revoke"},
	"POST /auth/logout":              {actions: "session.sign_out"},
	"POST /auth/step-up":             {actions: "session.step_up", body: func(*attempt) any { return map[string]any{"password": password} }},
	"POST /auth/refresh":             {why: "a session, or a device's, that goes on is as it was; what ends it is recorded", body: func(*attempt) any { return nil }},
	"POST /auth/device":              {actions: "device_login.approve", body: userCode},
	"POST /auth/general":             {actions: "session.sign_in", do: login},

	"POST /auth/setup": {elsewhere: "identity.TestSetup: it takes a database without users"},
	"DELETE /auth/third-party-bindings/{provider}":      {elsewhere: "providers.TestBindAndUnbind: it takes a provider"},
	"POST /auth/third-party-bindings/{provider}":        {elsewhere: "providers.TestBindAndUnbind: it takes a provider"},
	"POST /auth/webauthn/login/options":                 {why: "nothing has happened yet", body: func(*attempt) any { return nil }},
	"POST /auth/webauthn/register/options":              {why: "nothing has happened yet", body: func(*attempt) any { return nil }},
	"POST /auth/webauthn/step-up/options":               {elsewhere: "passkeys.TestLifeOfAPasskey: it takes a passkey"},
	"POST /auth/webauthn/login/verify":                  {elsewhere: "passkeys.TestLifeOfAPasskey: it takes an authenticator"},
	"POST /auth/webauthn/register/verify":               {elsewhere: "passkeys.TestLifeOfAPasskey: it takes an authenticator"},
	"POST /auth/webauthn/step-up/verify":                {elsewhere: "passkeys.TestLifeOfAPasskey: it takes an authenticator"},
	"DELETE /auth/webauthn/credentials/{credential_id}": {elsewhere: "passkeys.TestLifeOfAPasskey: it takes a passkey"},
}

// invited makes a user who has not confirmed the address.
func invited(a *attempt) {
	a.w.t.Helper()
	var made struct{ ID int64 }
	a.c.do("POST", "/apiv1/admin/users", map[string]any{"email": freshPublicID() + "@example.org"}, 201).data(a.w.t, &made)
	a.ids["user_id"] = strconv.FormatInt(made.ID, 10)
}

// unwanted makes a user who is to be deleted.
func unwanted(a *attempt) {
	a.w.t.Helper()
	invited(a)
	a.c.do("DELETE", "/apiv1/admin/users/"+a.ids["user_id"], nil, 204)
}

func freshPublicID() string {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x-0000-0000-0000-000000000000", b)
}

func freshPublicKey() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// make posts as the resident and keeps the id of what was made.
func (a *attempt) make(path, parameter string, body any) {
	a.w.t.Helper()
	var made struct{ ID int64 }
	a.r.do("POST", path, body, 201).data(a.w.t, &made)
	a.ids[parameter] = strconv.FormatInt(made.ID, 10)
}

func newAccount(a *attempt) {
	a.make("/apiv1/me/acme-accounts", "acme_account_id", accountExample(a.r))
}

func newKey(a *attempt) { a.make("/apiv1/me/apikeys", "apikey_id", keyExample(a.r)) }

func newCertificate(a *attempt) {
	a.make("/apiv1/me/certificates", "certificate_id", certificateExample(a.r))
}

func importedCertificate(a *attempt) {
	a.ids["certificate_id"] = strconv.FormatInt(a.r.imported(), 10)
}

// forced orders however many there were for the names already.
func forced(*attempt) any { return map[string]any{"force": true} }

func newIssuance(a *attempt) {
	newCertificate(a)
	a.make("/apiv1/me/certificates/"+a.ids["certificate_id"]+"/issues", "issue_id", forced(a))
}

func newName(a *attempt) { a.make("/apiv1/me/names", "name_id", nameExample(a.r)) }

func newWebhook(a *attempt) { a.make("/apiv1/me/service_webhooks", "webhook_id", webhookExample(a.r)) }

func newDevice(a *attempt) {
	a.ids["device_id"] = strconv.FormatInt(a.r.enrol(freshPublicID()).ID, 10)
}

func assignment(a *attempt) any {
	id, _ := strconv.ParseInt(a.ids["certificate_id"], 10, 64)
	return map[string]any{"cert_id": id}
}

func assigned(a *attempt) {
	newCertificate(a)
	a.r.do("POST", "/apiv1/me/devices/"+a.ids["device_id"]+"/certificates", assignment(a), 204)
}

func unassigned(a *attempt) {
	a.r.try("DELETE", "/apiv1/me/devices/"+a.ids["device_id"]+"/certificates/"+a.ids["certificate_id"], nil)
}

// patchable gives the device a step that the example of a patch fits.
func patchable(a *attempt) {
	item := certItemExample(a.r).(map[string]any)["installs"].([]any)[0].(map[string]any)
	item["ob_id"], item["enabled"] = 1, false
	a.r.do("PUT", "/apiv1/me/devices/"+a.ids["device_id"]+"/install-config", map[string]any{"installs": []any{item}}, 200)
}

// userCode begins a device login.
func userCode(a *attempt) any {
	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	a.w.anonymous().do("POST", "/auth/device", map[string]any{"action": "device_start"}, 200).data(a.w.t, &flow)
	a.ids["device_code"] = flow.DeviceCode
	return map[string]any{"action": "device_verify", "user_code": flow.UserCode}
}

// enrolment is the body of a new device, with a code that the user approved.
func enrolment(a *attempt) any {
	a.r.do("POST", "/auth/device", userCode(a), 200)
	var ready struct {
		RegistrationCode string `json:"registration_code"`
	}
	a.w.anonymous().do("POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": a.ids["device_code"]}, 200).data(a.w.t, &ready)
	return map[string]any{
		"device_public_id": freshPublicID(), "registration_code": ready.RegistrationCode, "dev_pk": freshPublicKey(), "user_id": a.r.UserID,
	}
}

func register(a *attempt) *answer { return a.call(enrolment(a)) }

// login signs in, without a session before; the session that is made is the
// actor.
func login(a *attempt) *answer {
	answer := a.w.anonymous().try("POST", "/auth/general", map[string]any{"action": "login", "email": a.r.email(a.w), "password": password})
	list := a.w.entries(a.w.database(), "request_id = $1", answer.header.Get("X-Request-Id"))
	if len(list) == 1 {
		a.actor = list[0].object
	}
	return answer
}
