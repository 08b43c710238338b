package app_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// proofRow says of a route whether a person needs a fresh proof for it: bodies
// that are refused without one, or why none is needed.
type proofRow struct {
	bodies []func(r *resident) any // nil as one of them: the good body of the matrix
	query  string
	why    string
}

// goodBody is for a route that needs a fresh proof whatever it is asked.
var goodBody = []func(r *resident) any{nil}

func bodyOf(b any) func(*resident) any { return func(*resident) any { return b } }

const (
	takesAway = "takes away, and gives nobody anything"
	isProof   = "is a sign-in or a proof itself"
)

// freshProof has a row for every route that a session can change something
// with, and for those that only read but hand out a key.
var freshProof = map[string]proofRow{
	"POST U/acme-accounts": {bodies: []func(r *resident) any{bodyOf(map[string]any{
		"name": "eab", "email": "ops@example.org", "provider": "custom", "directory_url": "https://127.0.0.1:1/directory", "eab_kid": "k", "eab_hmac_key": "AAAA",
	})}},
	"PUT U/acme-accounts/{acme_account_id}": {bodies: []func(r *resident) any{
		bodyOf(map[string]any{"eab_kid": "k", "eab_hmac_key": "AAAA"}), bodyOf(map[string]any{"eab_kid": "k"}),
	}},
	"DELETE U/acme-accounts/{acme_account_id}": {why: takesAway},

	"POST U/apikeys": {bodies: goodBody},
	"PATCH U/apikeys/{apikey_id}": {bodies: []func(r *resident) any{bodyOf(map[string]any{
		"permissions": []any{permission("cas", "*", "read", "write", "issue")},
	})}},
	"DELETE U/apikeys/{apikey_id}": {why: takesAway},

	// The key of other new certificates goes nowhere before an assignment.
	"POST U/certificates": {bodies: []func(r *resident) any{bodyOf(map[string]any{"action": "csr", "csr_pem": "of a thief", "acct_id": 1})}},
	"PUT U/certificates/{certificate_id}": {bodies: []func(r *resident) any{
		bodyOf(map[string]any{"action": "rekey"}), bodyOf(map[string]any{"action": "rekey", "policy": "HYBRID"}),
		bodyOf(map[string]any{"policy": "HYBRID"}), bodyOf(map[string]any{"policy": "MASTER_ONLY"}), bodyOf(map[string]any{"server_decrypt_export": true}),
	}},
	"DELETE U/certificates/{certificate_id}":                   {why: takesAway},
	"GET U/certificates/{certificate_id}/export":               {bodies: goodBody},
	"POST U/certificates/{certificate_id}/issues":              {why: "the new key goes where the present one may go already"},
	"DELETE U/certificates/{certificate_id}/issues/{issue_id}": {why: takesAway},

	"POST U/devices": {bodies: []func(r *resident) any{
		nil, func(r *resident) any {
			return map[string]any{"device_public_id": r.device.PublicID, "refresh_token": r.device.Refresh, "dev_pk": somePublicKey}
		},
	}},
	"DELETE U/devices/{device_id}":                                   {why: takesAway},
	"POST U/devices/{device_id}/confirm-key":                         {bodies: goodBody},
	"DELETE U/devices/{device_id}/confirm-key":                       {why: takesAway},
	"POST U/devices/{device_id}/certificates":                        {bodies: goodBody},
	"DELETE U/devices/{device_id}/certificates/{certificate_id}":     {why: takesAway},
	"GET U/devices/{device_id}/certificates/{certificate_id}/bundle": {bodies: []func(r *resident) any{bodyOf(nil)}}, // in plain text alone
	"PUT U/devices/{device_id}/install-config":                       {bodies: []func(r *resident) any{configExample, certItemExample}},
	"POST U/devices/{device_id}/install-config/restore":              {bodies: goodBody},

	"POST U/service_webhooks":                                                 {bodies: goodBody},
	"PUT U/service_webhooks/{webhook_id}":                                     {bodies: goodBody},
	"DELETE U/service_webhooks/{webhook_id}":                                  {why: takesAway},
	"POST U/service_webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": {why: "sends again what the receiver was to get"},
	"POST U/service_webhooks/{webhook_id}/test":                               {why: "sends nothing of the user's"},

	"POST U/names":                               {why: "what proves a name is a record, not a session"},
	"POST U/names/{name_id}/verify":              {why: "what proves a name is a record, not a session"},
	"DELETE U/names/{name_id}":                   {bodies: goodBody}, // any other user can have it then
	"POST U/names/{name_id}/grants":              {bodies: goodBody},
	"DELETE U/names/{name_id}/grants/{grant_id}": {why: takesAway},

	"POST U/password":                {bodies: goodBody},
	"DELETE U/sessions":              {bodies: goodBody, query: "?keep_current=true"},
	"DELETE U/sessions/{session_id}": {bodies: goodBody}, // another session than the caller's

	"POST /apiv1/device/registration": {bodies: []func(r *resident) any{func(r *resident) any {
		return map[string]any{"user_id": r.UserID, "device_public_id": r.device.PublicID, "refresh_token": r.device.Refresh, "dev_pk": somePublicKey}
	}}},
	"POST /auth/device": {bodies: []func(r *resident) any{
		bodyOf(map[string]any{"action": "device_verify", "user_code": "BCDF-GHJK"}),
		bodyOf(map[string]any{"action": "device_verify", "user_code": "BCDF-GHJK", "approve": true}),
	}},
	"POST /auth/general":                                {why: isProof},
	"POST /auth/logout":                                 {why: takesAway},
	"POST /auth/refresh":                                {why: "a session goes on with the proof that it had"},
	"POST /auth/step-up":                                {why: isProof},
	"DELETE /auth/third-party-bindings/{provider}":      {bodies: goodBody},
	"POST /auth/third-party-bindings/{provider}":        {bodies: goodBody},
	"DELETE /auth/webauthn/credentials/{credential_id}": {bodies: goodBody},
	"POST /auth/webauthn/login/verify":                  {why: isProof},
	"POST /auth/webauthn/register/options":              {bodies: goodBody},
	"POST /auth/webauthn/register/verify":               {why: "asks after it has read what no test can make up: passkeys.TestFreshProof"},
	"POST /auth/webauthn/step-up/options":               {why: isProof},
	"POST /auth/webauthn/step-up/verify":                {why: isProof},
}

// needsProof reports whether the route needs a fresh proof for its good body.
func needsProof(o *operation) bool {
	row := freshProof[o.line()]
	return row.query == "" && slices.ContainsFunc(row.bodies, func(body func(r *resident) any) bool { return body == nil })
}

// Every way of a session to a private key, to a command on a device or to what
// guards them is refused without a fresh proof: to a session whose sign-in is an
// hour old, and to one that was just made with the password alone of a user who
// has a passkey, as a thief of the password has it. Nothing has changed then. A
// route that is added without a row in the table, or Fresh on its line, fails.
func TestFreshProofForEveryRoute(t *testing.T) {
	t.Parallel()
	c := settings(t, dbtest.SQLiteConfig(t))
	withProviders(t, &c)
	w := newWorldWith(t, c, app.Options{})
	db, r := w.database(), w.alice
	var made struct{ ID int64 }
	sealedAway := map[string]any{"action": "create", "domain_name": "devices.example.org", "acct_id": r.id("acme_account_id"), "policy": "DEVICE_REQUIRED"}
	r.do("POST", "/apiv1/me/certificates", sealedAway, 201).data(t, &made)
	r.ids["certificate_id"] = strconv.FormatInt(made.ID, 10)
	plain := r.openly()
	stale := w.sessionSince(db, r, time.Now().Add(-16*time.Minute))
	thief := w.sessionSince(db, r, time.Now())
	seen := func() string { return changedHere.ReplaceAllString(w.seen(t, r), "") }
	refused := func(who *caller, acr string) {
		before := seen()
		for _, o := range w.operations {
			row, listed := freshProof[o.line()]
			writes := o.method != "GET" && (o.rule.TakesSession() || o.rule.Recognises()) && !o.rule.NeedsFresh()
			if writes && (!listed || row.why == "" == (row.bodies == nil)) {
				t.Errorf("%s: say in freshProof which bodies need a fresh proof, or why none does", o.line())
			}
			for _, body := range row.bodies {
				ids := maps.Clone(r.ids)
				if withKey.MatchString(o.path) {
					ids["certificate_id"] = plain
				}
				a := who.try(o.method, w.fill(o, ids)+row.query, w.proofBody(o, body))
				p := a.check(t, o.line(), o)
				if a.status != 403 || p == nil || p.Code != 5034 || p.Key != "STEP_UP_REQUIRED" || p.Params["acr"] != acr {
					t.Errorf("%s of a session without a fresh proof: %d %s", o.line(), a.status, a.body)
				}
			}
		}
		if after := seen(); after != before {
			t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
		}
	}
	refused(stale, "aal1")
	_, err := db.Writer().ExecContext(t.Context(), `INSERT INTO passkeys (user_id, credential_id, public_key, algorithm, name, aaguid, transports, flags,
		sign_count, clone_warning, created_at, last_used_at) VALUES ($1, $2, $2, -7, '', '', '[]', 0, 0, FALSE, 0, 0)`, r.UserID, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	refused(stale, "aal2")
	refused(thief, "aal2")
	for line := range freshProof {
		if w.find(line) == nil {
			t.Errorf("freshProof has a row for %s, which does not exist", line)
		}
	}
	r.caller = w.sessionSince(db, r, time.Now())
	if _, err := db.Writer().ExecContext(t.Context(), `UPDATE sessions SET acr = 'aal2' WHERE auth_time > $1 AND user_id = $2`, 0, r.UserID); err != nil {
		t.Fatal(err)
	}
	r.do("PUT", "/apiv1/me/devices/"+r.ids["device_id"]+"/install-config", configExample(r), 200) // whoever has the passkey goes on
}

// openly is a certificate whose key the device gets in plain text.
func (r *resident) openly() string {
	r.p.t.Helper()
	certPEM, keyPEM, _ := importable(r.p.t)
	var made struct{ ID int64 }
	r.do("POST", "/apiv1/me/certificates", map[string]any{
		"action": "import", "cert_pem": certPEM, "private_key_pem": keyPEM, "policy": "MASTER_ONLY", "server_decrypt_export": true,
	}, 201).data(r.p.t, &made)
	r.do("POST", "/apiv1/me/devices/"+r.ids["device_id"]+"/certificates", map[string]any{"cert_id": made.ID}, 204)
	return strconv.FormatInt(made.ID, 10)
}

func (w *world) proofBody(o *operation, body func(*resident) any) any {
	switch {
	case body != nil:
		return body(w.alice)
	case o.method == "GET":
		return nil
	}
	return o.matrixBody(w.alice)
}
