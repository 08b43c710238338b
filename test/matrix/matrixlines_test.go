package matrix_test

import (
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// specifiedAreas are the areas of U whose objects keys know: their scope and the
// path parameter of an object (decisions.md section 3).
var specifiedAreas = map[string]struct{ scope, object string }{
	"certificates": {"certificates", "certificate_id"}, "devices": {"devices", "device_id"}, "acme-accounts": {"acme_accounts", "acme_account_id"},
	"cas": {"cas", "ca_id"}, "service_webhooks": {"service_webhooks", "webhook_id"},
}

// specifiedLines are the lines that the specification states one by one.
var specifiedLines = map[string]string{
	"POST U/devices":            "session | key ForDeviceAuthenticate:authenticate", // wire.md section 4
	"GET U/devices/{device_id}": "session | key devices:read",                       // the fixed 501
	assignLine:                  "key certificates:read",                            // api.md "API key automation"
	"POST U/install-config-update/{device_public_id}":    "key ForInstallConfigUpdate:update", // api.md
	"GET U/acme-accounts/{acme_account_id}/certificates": "session | key certificates:read",   // a list of certificates
	"POST /auth/general": "public | session?", "POST /auth/device": "public | session?", "POST /auth/refresh": "public | session?", // wire.md section 3
	"POST /apiv1/device/registration": "public | session?",                                           // field scripts send their cookie
	"GET /":                           "public",                                                      // a page
	"GET /auth/status":                "public | session?", "POST /auth/logout": "public | session?", // decisions.md 7.2
	"POST /auth/webauthn/login/verify": "public | session?", // replaces the session that the browser had
}

// specifiedPublic are the beginnings of paths that need no credential.
var specifiedPublic = []string{
	"/health", "/apiv1/permissions/catalog", "/apiv1/dns/providers/catalog", "/apiv1/device/registration", "/.well-known/acme-challenge/", "/api/version/check",
	"/auth/general", "/auth/setup", "/auth/webauthn/login/", "/auth/providers", "/auth/github", "/auth/weixin", "/auth/solana", "/auth/oidc/",
	"/docs", "/openapi.json", "/setup", "/account", "/device",
}

// specified is the route line that the specification gives a path.
func specified(o *apptest.Operation) string {
	if line, ok := specifiedLines[o.Line()]; ok {
		return line
	}
	rest, ofUser := strings.CutPrefix(o.Path, apptest.OwnPath+"/")
	switch {
	case strings.HasPrefix(o.Path, "/apiv1/devices/self/"):
		return "device"
	case strings.HasPrefix(o.Path, "/apiv1/admin/") && o.Method == "GET":
		return "session of admin"
	case strings.HasPrefix(o.Path, "/apiv1/admin/"): // "with aal2 for changes"
		return "session of admin at fresh aal2"
	case slices.ContainsFunc(specifiedPublic, func(p string) bool { return o.Path == p || strings.HasPrefix(o.Path, p) }):
		return "public"
	case !ofUser:
		return "session"
	}
	area := specifiedAreas[strings.Split(rest, "/")[0]]
	// Assignments: "to assign a certificate with an API key, use certificate-assign" (api.md).
	if area.scope == "" || area.scope == "devices" && (strings.Contains(rest, "}/certificates") || strings.Contains(rest, "}/cas") || strings.HasSuffix(rest, "/confirm-key")) {
		return "session"
	}
	action := "write" // 8.7: "GET needs read, POST, PUT, PATCH and DELETE write, issuing and exporting read and issue"
	switch {
	case o.Method == "GET" && !strings.HasSuffix(rest, "/export"):
		action = "read"
	case strings.HasSuffix(rest, "/export"), strings.Contains(rest, "/issue"):
		action = "read+issue"
	}
	line := "session | key " + area.scope + ":" + action
	if strings.Contains(rest, "{"+area.object+"}") {
		line += " on " + area.object
	}
	return line
}

// The route lines say what the specification says, so that the matrix, which is
// made from the lines, is that of the specification.
func TestRouteLinesAreTheSpecifications(t *testing.T) {
	t.Parallel()
	p := apptest.Start(t, apptest.Settings(t, dbtest.SQLiteConfig(t)), app.Options{}, nil)
	for _, o := range apptest.Operations(t, p) {
		want := specified(o)
		got := o.Rule.String()
		if want == "public" && strings.HasPrefix(o.Path, "/auth/") { // signing in may replace the session that the browser had
			got = strings.TrimSuffix(got, " | session?")
		}
		if got != want {
			t.Errorf("%s takes %q, want %q", o.Line(), got, want)
		}
	}
}
