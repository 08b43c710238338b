package matrix_test

import (
	"cmp"
	"maps"
	"net/http"
	"regexp"
	"strings"

	"certharbor.dev/certharbor/internal/app/apptest"
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
	apptest.NotImplemented:                    {cell{501, 5010}, "api.md: not implemented"},
	"POST U/devices by session":               {cell{400, 5000}, "an unknown registration code (decisions.md 8.9)"},
	"POST U/devices by key":                   {cell{200, 0}, "a device that is known (decisions.md 8.11)"},
	"POST U/devices/{device_id}/certificates": {cell{204, 0}, "an assignment (decisions.md 1)"},
	assignLine: {cell{204, 0}, "an assignment (decisions.md 1)"},
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
func answered(o *apptest.Operation, c matrixColumn) cell {
	if out, ok := outcomes[o.Line()+" by "+c.name]; ok {
		return out.cell
	}
	if out, ok := outcomes[o.Line()]; ok {
		return out.cell
	}
	last := o.Path[strings.LastIndexByte(o.Path, '/')+1:]
	switch {
	case o.Method == http.MethodDelete:
		return cell{204, 0}
	case o.Method == http.MethodPost && o.OfUser() && !strings.HasPrefix(last, "{"):
		return cell{201, 0}
	}
	return cell{200, 0}
}

// matrixQueries are parameters that a good request needs.
var matrixQueries = map[string]string{"GET /auth/general": "?name=somebody", "GET /auth/device": "?user_code=ABCD-EFGH", "GET /auth/solana": "?address=7EqQdEULxWcraVx3mXKFjc84LhCkMGZCkRuDpvcMwJeK"}

// withKey are the routes that hand out a certificate: they are tried with one
// that there is, with its key.
var withKey = regexp.MustCompile(`/export$|/self/certificates/|/certificates/\{certificate_id\}/bundle$`)

// ids are the ids for the path of a route.
func (m *matrix) ids(o *apptest.Operation, r *apptest.Resident) map[string]string {
	if !withKey.MatchString(o.Path) {
		return r.Ids
	}
	ids := maps.Clone(r.Ids)
	ids["certificate_id"] = m.imported[r]
	return ids
}

// order puts what others need before what takes it away: deletions last, and
// among them those of parts first; then a new password, which ends sessions.
func order(a, b *apptest.Operation) int {
	rank := func(o *apptest.Operation) int {
		switch {
		case o.Line() == "POST U/password":
			return 3000
		case o.Line() == "DELETE U/acme-accounts/{acme_account_id}": // after its certificates
			return 2000
		case o.Method == http.MethodDelete:
			return 1000 - len(o.Path)
		}
		return 0
	}
	return cmp.Compare(rank(a), rank(b))
}
