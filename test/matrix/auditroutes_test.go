package matrix_test

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"

	"certharbor.dev/certharbor/internal/app/apptest"
)

// traced is what a successful use of a route leaves in the audit log.
type traced struct {
	actions   string                     // in their order
	why       string                     // why there are none
	elsewhere string                     // the test that shows it, where this one has not what it takes
	prepare   func(a *apptest.Attempt)   // makes what the route needs
	body      func(*apptest.Attempt) any // nil: the example of the operation
	do        func(*apptest.Attempt) *apptest.Answer
}

func (want traced) use(a *apptest.Attempt) *apptest.Answer {
	a.W.T.Helper()
	if want.prepare != nil {
		want.prepare(a)
	}
	if want.do != nil {
		return want.do(a)
	}
	if want.body != nil {
		return a.Call(want.body(a))
	}
	return a.Call(a.O.Good(a.R))
}

// auditedRoutes has a line for every route but those that only read.
var auditedRoutes = map[string]traced{
	"POST /apiv1/device/registration": {actions: "device.register", do: register},
	"POST /apiv1/devices/self/notify": {why: "what a device reports of itself changes nothing of the user's"},

	"POST /apiv1/admin/users":                                   {actions: "user.create", body: func(*apptest.Attempt) any { return map[string]any{"email": apptest.FreshPublicID() + "@example.org"} }},
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

	"POST U/devices":                                             {actions: "device.register", prepare: func(a *apptest.Attempt) { a.Ids["device_public_id"] = apptest.FreshPublicID() }, body: enrolment},
	"DELETE U/devices/{device_id}":                               {actions: "device.delete", prepare: newDevice},
	"POST U/devices/{device_id}/confirm-key":                     {actions: "device.confirm_key", prepare: apptest.WaitingKey, body: func(a *apptest.Attempt) any { return apptest.NamedKey(a.R) }},
	"DELETE U/devices/{device_id}/confirm-key":                   {actions: "device.refuse_key", prepare: apptest.WaitingKey, body: func(*apptest.Attempt) any { return nil }},
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

	"POST U/password":                {actions: "user.change_password", body: func(*apptest.Attempt) any { return map[string]any{"new_password": apptest.Password} }},
	"DELETE U/sessions":              {actions: "session.revoke_all", body: func(*apptest.Attempt) any { return nil }},
	"DELETE U/sessions/{session_id}": {actions: "session.revoke"},
	"POST /auth/logout":              {actions: "session.sign_out"},
	"POST /auth/step-up":             {actions: "session.step_up", body: func(*apptest.Attempt) any { return map[string]any{"password": apptest.Password} }},
	"POST /auth/refresh":             {why: "a session, or a device's, that goes on is as it was; what ends it is recorded", body: func(*apptest.Attempt) any { return nil }},
	"POST /auth/device":              {actions: "device_login.approve", body: userCode},
	"POST /auth/general":             {actions: "session.sign_in", do: login},

	"POST /auth/setup": {elsewhere: "identity.TestSetup: it takes a database without users"},
	"DELETE /auth/third-party-bindings/{provider}":      {elsewhere: "providers.TestBindAndUnbind: it takes a provider"},
	"POST /auth/third-party-bindings/{provider}":        {elsewhere: "providers.TestBindAndUnbind: it takes a provider"},
	"POST /auth/webauthn/login/options":                 {why: "nothing has happened yet", body: func(*apptest.Attempt) any { return nil }},
	"POST /auth/webauthn/register/options":              {why: "nothing has happened yet", body: func(*apptest.Attempt) any { return nil }},
	"POST /auth/webauthn/step-up/options":               {elsewhere: "passkeys.TestLifeOfAPasskey: it takes a passkey"},
	"POST /auth/webauthn/login/verify":                  {elsewhere: "passkeys.TestLifeOfAPasskey: it takes an authenticator"},
	"POST /auth/webauthn/register/verify":               {elsewhere: "passkeys.TestLifeOfAPasskey: it takes an authenticator"},
	"POST /auth/webauthn/step-up/verify":                {elsewhere: "passkeys.TestLifeOfAPasskey: it takes an authenticator"},
	"DELETE /auth/webauthn/credentials/{credential_id}": {elsewhere: "passkeys.TestLifeOfAPasskey: it takes a passkey"},
}

// invited makes a user who has not confirmed the address.
func invited(a *apptest.Attempt) {
	a.W.T.Helper()
	var made struct{ ID int64 }
	a.C.Do("POST", "/apiv1/admin/users", map[string]any{"email": apptest.FreshPublicID() + "@example.org"}, 201).Data(a.W.T, &made)
	a.Ids["user_id"] = strconv.FormatInt(made.ID, 10)
}

// unwanted makes a user who is to be deleted.
func unwanted(a *apptest.Attempt) {
	a.W.T.Helper()
	invited(a)
	a.C.Do("DELETE", "/apiv1/admin/users/"+a.Ids["user_id"], nil, 204)
}

func freshPublicKey() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

func newAccount(a *apptest.Attempt) {
	a.Make("/apiv1/me/acme-accounts", "acme_account_id", apptest.AccountExample(a.R))
}

func newKey(a *apptest.Attempt) { a.Make("/apiv1/me/apikeys", "apikey_id", apptest.KeyExample(a.R)) }

func newCertificate(a *apptest.Attempt) {
	a.Make("/apiv1/me/certificates", "certificate_id", apptest.CertificateExample(a.R))
}

func importedCertificate(a *apptest.Attempt) {
	a.Ids["certificate_id"] = strconv.FormatInt(a.R.Imported(), 10)
}

// forced orders however many there were for the names already.
func forced(*apptest.Attempt) any { return map[string]any{"force": true} }

func newIssuance(a *apptest.Attempt) {
	newCertificate(a)
	a.Make("/apiv1/me/certificates/"+a.Ids["certificate_id"]+"/issues", "issue_id", forced(a))
}

func newName(a *apptest.Attempt) { a.Make("/apiv1/me/names", "name_id", apptest.NameExample(a.R)) }

func newWebhook(a *apptest.Attempt) {
	a.Make("/apiv1/me/service_webhooks", "webhook_id", apptest.WebhookExample(a.R))
}

func newDevice(a *apptest.Attempt) {
	a.Ids["device_id"] = strconv.FormatInt(a.R.Enrol(apptest.FreshPublicID()).ID, 10)
}

func assignment(a *apptest.Attempt) any {
	id, _ := strconv.ParseInt(a.Ids["certificate_id"], 10, 64)
	return map[string]any{"cert_id": id}
}

func assigned(a *apptest.Attempt) {
	newCertificate(a)
	a.R.Do("POST", "/apiv1/me/devices/"+a.Ids["device_id"]+"/certificates", assignment(a), 204)
}

func unassigned(a *apptest.Attempt) {
	a.R.Try("DELETE", "/apiv1/me/devices/"+a.Ids["device_id"]+"/certificates/"+a.Ids["certificate_id"], nil)
}

// patchable gives the device a step that the example of a patch fits.
func patchable(a *apptest.Attempt) {
	item := apptest.CertItemExample(a.R).(map[string]any)["installs"].([]any)[0].(map[string]any)
	item["ob_id"], item["enabled"] = 1, false
	a.R.Do("PUT", "/apiv1/me/devices/"+a.Ids["device_id"]+"/install-config", map[string]any{"installs": []any{item}}, 200)
}

// userCode begins a device login.
func userCode(a *apptest.Attempt) any {
	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	a.W.Anonymous().Do("POST", "/auth/device", map[string]any{"action": "device_start"}, 200).Data(a.W.T, &flow)
	a.Ids["device_code"] = flow.DeviceCode
	return map[string]any{"action": "device_verify", "user_code": flow.UserCode}
}

// enrolment is the body of a new device, with a code that the user approved.
func enrolment(a *apptest.Attempt) any {
	a.R.Do("POST", "/auth/device", userCode(a), 200)
	var ready struct {
		RegistrationCode string `json:"registration_code"`
	}
	a.W.Anonymous().Do("POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": a.Ids["device_code"]}, 200).Data(a.W.T, &ready)
	return map[string]any{
		"device_public_id": apptest.FreshPublicID(), "registration_code": ready.RegistrationCode, "dev_pk": freshPublicKey(), "user_id": a.R.UserID,
	}
}

func register(a *apptest.Attempt) *apptest.Answer { return a.Call(enrolment(a)) }

// login signs in, without a session before; the session that is made is the
// actor.
func login(a *apptest.Attempt) *apptest.Answer {
	answer := a.W.Anonymous().Try("POST", "/auth/general", map[string]any{"action": "login", "email": a.R.Email(a.W), "password": apptest.Password})
	list := a.W.Entries(a.W.Database(), "request_id = $1", answer.Header.Get("X-Request-Id"))
	if len(list) == 1 {
		a.Actor = list[0].Object
	}
	return answer
}
