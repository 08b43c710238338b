package app_test

import (
	"cmp"
	"encoding/base64"
	"maps"
	"net/http"
	"regexp"
	"strings"
)

// outcome is what a route answers to those whom it admits, in the world of the
// matrix, where it is not what its method says; why tells where that stands.
type outcome struct {
	cell cell
	why  string
}

// outcomes of good requests. The rest is: GET, PUT, PATCH 200; POST to a
// collection 201; DELETE 204 (decisions.md section 1).
var outcomes = map[string]outcome{
	notImplemented:                                              {cell{501, 5010}, "api.md: not implemented"},
	"POST U/devices by session":                                 {cell{400, 5000}, "an unknown registration code (decisions.md 8.9)"},
	"POST U/devices by key":                                     {cell{200, 0}, "a device that is known (decisions.md 8.11)"},
	"POST U/devices/{device_id}/certificates":                   {cell{204, 0}, "an assignment (decisions.md 1)"},
	assignLine:                                                  {cell{204, 0}, "an assignment (decisions.md 1)"},
	"POST U/certificates/{certificate_id}/issues":               {cell{200, 0}, "one is under way already (decisions.md 4)"},
	"POST U/devices/{device_id}/install-config/restore":         {cell{200, 0}, "the same configuration in a new version (wire.md 7.2)"},
	"POST U/install-config-update/{device_public_id}":           {cell{200, 0}, "the same"},
	"POST /apiv1/admin/users":                                   {cell{201, 0}, "a user is made"},
	"POST /apiv1/admin/users/{user_id}/cancel-deletion":         {cell{409, 5030}, "no deletion waits"},
	"POST /apiv1/admin/users/{user_id}/sign-out":                {cell{204, 0}, "nothing to say"},
	"POST /apiv1/admin/users/{user_id}/resend-activation-email": {cell{204, 0}, "nothing to say"},
	"POST U/names/{name_id}/verify":                             {cell{200, 0}, "the name as it is"},
	"POST /apiv1/admin/names":                                   {cell{201, 0}, "a new claim"},
	"POST U/password":                                           {cell{204, 0}, "nothing to say"},
	"POST /apiv1/devices/self/notify":                           {cell{204, 0}, "wire.md 7.1"},
	"POST /apiv1/device/registration":                           {cell{400, 5000}, "an unknown registration code (decisions.md 8.9)"},
	"POST /auth/logout":                                         {cell{204, 0}, "nothing to say, also to those who have no session"},
	"POST /auth/refresh":                                        {unauthorized, "neither a refresh token nor a session"},
	"POST /auth/refresh by session":                             {cell{200, 0}, "decisions.md 7.6"},
	"POST /auth/refresh by s:other":                             {cell{200, 0}, "decisions.md 7.6"},
	"POST /auth/setup":                                          {unauthorized, "an unknown setup token"},
	"POST /auth/webauthn/login/verify":                          {unauthorized, "an unknown passkey"},
	"POST /auth/webauthn/step-up/options":                       {cell{409, 5030}, "there is no passkey"},
	"POST /auth/webauthn/step-up/verify":                        {unauthorized, "an unknown passkey"},
	"POST /auth/webauthn/register/verify":                       {cell{400, 5000}, "an unknown challenge"},
	"DELETE /auth/webauthn/credentials/{credential_id}":         {notFound, "there is no passkey"},
	"DELETE /auth/third-party-bindings/{provider}":              {notFound, "nothing is bound"},
	"DELETE U/acme-accounts/{acme_account_id} by session":       {cell{409, 5030}, "certificates use it (decisions.md 8.10)"},
	"DELETE U/acme-accounts/{acme_account_id} by key":           {cell{409, 5030}, "certificates use it (decisions.md 8.10)"},
	"GET /auth/device":                                          {cell{400, 5000}, "an unknown user code (decisions.md 7.5)"},
	"GET /":                                                     {cell{302, 0}, "to the page that there is"},
	"GET /auth/github":                                          {cell{303, 0}, "to the provider"},
	"GET /auth/weixin":                                          {cell{303, 0}, "to the provider"},
	"GET /auth/oidc/{name}":                                     {cell{303, 0}, "to the provider"},
	"GET /auth/github/callback":                                 {unauthorized, "nothing was begun in this browser"},
	"GET /auth/weixin/callback":                                 {unauthorized, "nothing was begun in this browser"},
	"GET /auth/oidc/{name}/callback":                            {unauthorized, "nothing was begun in this browser"},
	"POST /auth/third-party-bindings/{provider}":                {cell{200, 0}, "the address of the provider"},
	"GET /account":                                              {cell{302, 0}, "to the name of this host that passkeys need"},
	"GET /.well-known/acme-challenge/{token}":                   {notFound, "an unknown token"},
	"GET /docs/*":                                               {notFound, "no such file"},
	"POST U/devices/{device_id}/confirm-key":                    {notFound, "no key waits"},
	"DELETE U/devices/{device_id}/confirm-key":                  {notFound, "no key waits"},
}

// answered is the cell of a route for an admitted credential.
func answered(o *operation, c matrixColumn) cell {
	if out, ok := outcomes[o.line()+" by "+c.name]; ok {
		return out.cell
	}
	if out, ok := outcomes[o.line()]; ok {
		return out.cell
	}
	last := o.path[strings.LastIndexByte(o.path, '/')+1:]
	switch {
	case o.method == http.MethodDelete:
		return cell{204, 0}
	case o.method == http.MethodPost && o.ofUser() && !strings.HasPrefix(last, "{"):
		return cell{201, 0}
	}
	return cell{200, 0}
}

// matrixBodies are good bodies that the examples do not have, because those are
// about input, not about access.
var matrixBodies = map[string]func(r *resident) any{
	"POST /auth/general": func(*resident) any {
		return map[string]any{"action": "request-reset-password", "email": "nobody@example.org"}
	},
	"POST /auth/step-up": func(*resident) any { return map[string]any{"password": password} },
	"POST /auth/refresh": func(*resident) any { return nil },
	"POST /auth/setup": func(*resident) any {
		return map[string]any{"token": strings.Repeat("x", 43), "email": "root@example.org", "password": password}
	},
	"POST /auth/webauthn/login/verify":                unknownPasskey,
	"POST /auth/webauthn/step-up/verify":              unknownPasskey,
	"POST /auth/webauthn/register/verify":             unknownPasskey,
	"POST U/password":                                 func(*resident) any { return map[string]any{"new_password": password + "-2"} },
	"POST U/install-config-update/{device_public_id}": func(*resident) any { return map[string]any{"after_update_script": "true"} },
}

func (o *operation) matrixBody(r *resident) any {
	if body, ok := matrixBodies[o.line()]; ok {
		return body(r)
	}
	return o.good(r)
}

// unknownPasskey has the form of a passkey's answer, to a challenge of nobody.
func unknownPasskey(*resident) any {
	text := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return map[string]any{"id": text("none"), "rawId": text("none"), "type": "public-key", "response": map[string]any{
		"clientDataJSON":    text(`{"type":"webauthn.get","challenge":"` + text(strings.Repeat("c", 32)) + `","origin":"http://localhost:8080"}`),
		"authenticatorData": text(strings.Repeat("a", 32) + "\x05\x00\x00\x00\x00"), "signature": text("none"), "attestationObject": text("none"),
	}}
}

// matrixQueries are parameters that a good request needs.
var matrixQueries = map[string]string{"GET /auth/general": "?name=somebody", "GET /auth/device": "?user_code=ABCD-EFGH", "GET /auth/solana": "?address=7EqQdEULxWcraVx3mXKFjc84LhCkMGZCkRuDpvcMwJeK"}

// withKey are the routes that hand out a certificate: they are tried with one
// that there is, with its key.
var withKey = regexp.MustCompile(`/export$|/self/certificates/|/certificates/\{certificate_id\}/bundle$`)

// ids are the ids for the path of a route.
func (m *matrix) ids(o *operation, r *resident) map[string]string {
	if !withKey.MatchString(o.path) {
		return r.ids
	}
	ids := maps.Clone(r.ids)
	ids["certificate_id"] = m.imported[r]
	return ids
}

// order puts what others need before what takes it away: deletions last, and
// among them those of parts first; then a new password, which ends sessions.
func order(a, b *operation) int {
	rank := func(o *operation) int {
		switch {
		case o.line() == "POST U/password":
			return 3000
		case o.line() == "DELETE U/acme-accounts/{acme_account_id}": // after its certificates
			return 2000
		case o.method == http.MethodDelete:
			return 1000 - len(o.path)
		}
		return 0
	}
	return cmp.Compare(rank(a), rank(b))
}
