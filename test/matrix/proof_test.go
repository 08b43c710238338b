package matrix_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// proofRow says of a route whether a person needs a fresh proof for it: bodies
// that are refused without one, or why none is needed.
type proofRow struct {
	bodies []func(r *apptest.Resident) any // nil as one of them: the good body of the matrix
	query  string
	why    string
}

// goodBody is for a route that needs a fresh proof whatever it is asked.
var goodBody = []func(r *apptest.Resident) any{nil}

func bodyOf(b any) func(*apptest.Resident) any { return func(*apptest.Resident) any { return b } }

const (
	takesAway = "takes away, and gives nobody anything"
	isProof   = "is a sign-in or a proof itself"
)

// freshProof has a row for every route that a session can change something
// with, and for those that only read but hand out a key.
var freshProof = map[string]proofRow{
	"POST U/acme-accounts": {bodies: []func(r *apptest.Resident) any{bodyOf(map[string]any{
		"name": "eab", "email": "ops@example.org", "provider": "custom", "directory_url": "https://127.0.0.1:1/directory", "eab_kid": "k", "eab_hmac_key": "AAAA",
	})}},
	"PUT U/acme-accounts/{acme_account_id}": {bodies: []func(r *apptest.Resident) any{
		bodyOf(map[string]any{"eab_kid": "k", "eab_hmac_key": "AAAA"}), bodyOf(map[string]any{"eab_kid": "k"}),
	}},
	"DELETE U/acme-accounts/{acme_account_id}": {why: takesAway},

	"POST U/apikeys": {bodies: goodBody},
	"PATCH U/apikeys/{apikey_id}": {bodies: []func(r *apptest.Resident) any{bodyOf(map[string]any{
		"permissions": []any{apptest.Permission("cas", "*", "read", "write", "issue")},
	})}},
	"DELETE U/apikeys/{apikey_id}": {why: takesAway},

	// The key of other new certificates goes nowhere before an assignment.
	"POST U/certificates": {bodies: []func(r *apptest.Resident) any{bodyOf(map[string]any{"action": "csr", "csr_pem": "of a thief", "acct_id": 1})}},
	"PUT U/certificates/{certificate_id}": {bodies: []func(r *apptest.Resident) any{
		bodyOf(map[string]any{"action": "rekey"}), bodyOf(map[string]any{"action": "rekey", "policy": "HYBRID"}),
		bodyOf(map[string]any{"policy": "HYBRID"}), bodyOf(map[string]any{"policy": "MASTER_ONLY"}), bodyOf(map[string]any{"server_decrypt_export": true}),
	}},
	"DELETE U/certificates/{certificate_id}":                   {why: takesAway},
	"GET U/certificates/{certificate_id}/export":               {bodies: goodBody},
	"POST U/certificates/{certificate_id}/issues":              {why: "the new key goes where the present one may go already"},
	"DELETE U/certificates/{certificate_id}/issues/{issue_id}": {why: takesAway},

	"POST U/devices": {bodies: []func(r *apptest.Resident) any{
		nil, func(r *apptest.Resident) any {
			return map[string]any{"device_public_id": r.Device.PublicID, "refresh_token": r.Device.Refresh, "dev_pk": apptest.SomePublicKey}
		},
	}},
	"DELETE U/devices/{device_id}":                                   {why: takesAway},
	"POST U/devices/{device_id}/confirm-key":                         {bodies: goodBody},
	"DELETE U/devices/{device_id}/confirm-key":                       {why: takesAway},
	"POST U/devices/{device_id}/certificates":                        {bodies: goodBody},
	"DELETE U/devices/{device_id}/certificates/{certificate_id}":     {why: takesAway},
	"GET U/devices/{device_id}/certificates/{certificate_id}/bundle": {bodies: []func(r *apptest.Resident) any{bodyOf(nil)}}, // in plain text alone
	"PUT U/devices/{device_id}/install-config":                       {bodies: []func(r *apptest.Resident) any{apptest.ConfigExample, apptest.CertItemExample}},
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

	"POST /apiv1/device/registration": {bodies: []func(r *apptest.Resident) any{func(r *apptest.Resident) any {
		return map[string]any{"user_id": r.UserID, "device_public_id": r.Device.PublicID, "refresh_token": r.Device.Refresh, "dev_pk": apptest.SomePublicKey}
	}}},
	"POST /auth/device": {bodies: []func(r *apptest.Resident) any{
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
func needsProof(o *apptest.Operation) bool {
	row := freshProof[o.Line()]
	return row.query == "" && slices.ContainsFunc(row.bodies, func(body func(r *apptest.Resident) any) bool { return body == nil })
}

// Every way of a session to a private key, to a command on a device or to what
// guards them is refused without a fresh proof: to a session whose sign-in is an
// hour old, and to one that was just made with the password alone of a user who
// has a passkey, as a thief of the password has it. Nothing has changed then. A
// route that is added without a row in the table, or Fresh on its line, fails.
func TestFreshProofForEveryRoute(t *testing.T) {
	t.Parallel()
	c := apptest.Settings(t, dbtest.SQLiteConfig(t))
	apptest.WithProviders(t, &c)
	w := apptest.NewWorldWith(t, c, app.Options{})
	db, r := w.Database(), w.Alice
	var made struct{ ID int64 }
	sealedAway := map[string]any{"action": "create", "domain_name": "devices.example.org", "acct_id": r.ID("acme_account_id"), "policy": "DEVICE_REQUIRED"}
	r.Do("POST", "/apiv1/me/certificates", sealedAway, 201).Data(t, &made)
	r.Ids["certificate_id"] = strconv.FormatInt(made.ID, 10)
	plain := r.Openly()
	stale := w.SessionSince(db, r, time.Now().Add(-16*time.Minute))
	thief := w.SessionSince(db, r, time.Now())
	seen := func() string { return changedHere.ReplaceAllString(w.Seen(t, r), "") }
	refused := func(who *apptest.Caller, acr string) {
		before := seen()
		for _, o := range w.Operations {
			row, listed := freshProof[o.Line()]
			writes := o.Method != "GET" && (o.Rule.TakesSession() || o.Rule.Recognises()) && !o.Rule.NeedsFresh()
			if writes && (!listed || row.why == "" == (row.bodies == nil)) {
				t.Errorf("%s: say in freshProof which bodies need a fresh proof, or why none does", o.Line())
			}
			for _, body := range row.bodies {
				ids := maps.Clone(r.Ids)
				if withKey.MatchString(o.Path) {
					ids["certificate_id"] = plain
				}
				a := who.Try(o.Method, w.Fill(o, ids)+row.query, w.ProofBody(o, body))
				p := a.Check(t, o.Line(), o)
				if a.Status != 403 || p == nil || p.Code != 5034 || p.Key != "STEP_UP_REQUIRED" || p.Params["acr"] != acr {
					t.Errorf("%s of a session without a fresh proof: %d %s", o.Line(), a.Status, a.Body)
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
		if w.Find(line) == nil {
			t.Errorf("freshProof has a row for %s, which does not exist", line)
		}
	}
	r.Caller = w.SessionSince(db, r, time.Now())
	if _, err := db.Writer().ExecContext(t.Context(), `UPDATE sessions SET acr = 'aal2' WHERE auth_time > $1 AND user_id = $2`, 0, r.UserID); err != nil {
		t.Fatal(err)
	}
	r.Do("PUT", "/apiv1/me/devices/"+r.Ids["device_id"]+"/install-config", apptest.ConfigExample(r), 200) // whoever has the passkey goes on
}
