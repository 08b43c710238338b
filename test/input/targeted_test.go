package input_test

import (
	"fmt"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// What generation does not reach: values that only together are wrong, rules
// that a second look might pass by, and what must not have been stored.
func TestBadInputByHand(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		w := apptest.NewWorld(t, db)
		long := strings.Repeat("n", 5000)
		for _, test := range []struct {
			name, line, body string
			status           int
			what             string
		}{
			{"a rule passed by with a second name", "POST U/acme-accounts", `{"name":"a","provider":"letsencrypt","NAME":"` + long + `"}`, 400, "NAME"},
			{"the same among ignored members", "POST U/devices", `{"device_public_id":"` + apptest.PublicID(1) + `","dev_pk":"` + apptest.SomePublicKey + `","name":"a","Name":"` + long + `"}`, 400, "Name"},
			{"and under another case alone", "POST U/devices", `{"device_public_id":"` + apptest.PublicID(1) + `","dev_pk":"` + apptest.SomePublicKey + `","NAME":"` + long + `"}`, 400, "name"},
			{"a secret of blanks' length", "POST U/service_webhooks", `{"url":"http://127.0.0.1:1/","secret":"short"}`, 400, "secret"},
			{"a huge id in a scope", "POST U/service_webhooks", `{"url":"http://127.0.0.1:1/","secret":"0123456789abcdef","scope":{"type":"cert_id","cert_id":9223372036854775808}}`, 201, ""},
			{"a fraction in a scope", "POST U/service_webhooks", `{"url":"http://127.0.0.1:1/","secret":"0123456789abcdef","scope":{"type":"cert_id","cert_id":1.5}}`, 201, ""},
			{"a scope of bytes", "POST U/service_webhooks", "{\"url\":\"http://127.0.0.1:1/\",\"secret\":\"0123456789abcdef\",\"scope\":{\"type\":\"domain\",\"domain\":\"\xff\xfe\"}}", 201, ""},
			{"a NUL in a scope", "POST U/service_webhooks", `{"url":"http://127.0.0.1:1/","secret":"0123456789abcdef","scope":{"type":"domain","domain":"a\u0000"}}`, 400, "scope.domain"},
			{"a URL with bytes", "POST U/service_webhooks", "{\"url\":\"http://127.0.0.1:1/\xff\",\"secret\":\"0123456789abcdef\"}", 201, ""},
			{"bytes in free members", "PUT U/devices/{device_id}/install-config", "{\"installs\":[{\"type\":\"exec\",\"id\":\"a\",\"cmd\":[\"a\xff\",\"\\ud800\"],\"env\":{\"A\":\"\xff\"},\"verify\":{\"\xff\":\"\xff\"}}],\"after_update_script\":\"\xff\"}", 400, "installs"},
			{"bytes in a script", "PUT U/devices/{device_id}/install-config", "{\"installs\":[],\"after_update_script\":\"a\xff\"}", 0, ""},
			{"a NUL in an environment", "PUT U/devices/{device_id}/install-config", `{"installs":[{"type":"exec","id":"a","cmd":"x","env":{"A\u0000":"b"}}]}`, 400, "installs[0].env"},
			{"a number that is too exact", "PUT U/devices/{device_id}/install-config", `{"installs":[{"type":"exec","id":"a","cmd":"x","verify":{"a":1e300,"b":123456789012345678901234567890}}]}`, 200, ""},
			{"ten thousand steps", "PUT U/devices/{device_id}/install-config", `{"installs":[` + strings.Repeat(`{"type":"exec","cmd":"x"},`, 10000) + `{"type":"exec","cmd":"x"}]}`, 400, "installs"},
			{"a version that never was", "POST U/devices/{device_id}/install-config/restore", `{"version":9223372036854775807}`, 404, "version"},
			{"a certificate of nobody", "POST U/devices/{device_id}/certificates", `{"cert_id":9223372036854775807}`, 404, "certificate"},
			{"an account of nobody", "POST U/certificates", `{"action":"create","domain_name":"a.example.org","acct_id":9223372036854775807}`, 404, "acme account"},
			{"a thousand names", "POST U/certificates", `{"action":"create","domain_name":"a.example.org","acct_id":%acct%,"sans":[` + manyNames(1000) + `]}`, 400, "sans"},
			{"names in Unicode that are none", "POST U/certificates", `{"action":"create","domain_name":"a\u202eb.example.org","acct_id":%acct%}`, 400, "domain_name"},
			{"a lifetime of for ever", "POST U/certificates/{certificate_id}/issues", `{"validity_seconds":9223372036854775807}`, 400, "validity_seconds"},
			{"codes that never end", "POST /auth/device", `{"action":"device_start","expires_in":9223372036854775807}`, 400, "expires_in"},
			{"polls that never come", "POST /auth/device", `{"action":"device_start","interval":9223372036854775807}`, 400, "interval"},
			{"scopes without end", "POST /auth/device", `{"action":"device_start","scopes":[` + strings.Repeat(`"a",`, 3000) + `"a"]}`, 400, "scopes"},
			{"events that are not objects", "POST /apiv1/devices/self/notify", `{"events":[1,"a",null]}`, 400, "events"},
			{"an event of the wrong types", "POST /apiv1/devices/self/notify", `{"events":[{"type":5},{"type":"agent_version","agent":5,"version":{}}]}`, 0, ""},
			{"a version of 1 MB", "POST /apiv1/devices/self/notify", `{"events":[{"type":"agent_version","agent":"a","version":"` + strings.Repeat("9", 1_000_000) + `"}]}`, 0, ""},
		} {
			o := w.Find(test.line)
			if o == nil {
				continue
			}
			body := strings.ReplaceAll(test.body, "%acct%", w.Alice.Ids["acme_account_id"])
			a := w.As(o, w.Alice).Try(o.Method, w.Fill(o, w.Alice.Ids), body)
			p := a.Check(t, test.name, o)
			if test.status != 0 && a.Status != test.status || test.what != "" && !p.Names(test.what) {
				t.Errorf("%s: %d %.300s, want %d with %q", test.name, a.Status, a.Body, test.status, test.what)
			}
		}
		for _, path := range []string{"/apiv1/me/devices", "/apiv1/me/acme-accounts", "/apiv1/me/service_webhooks", "/apiv1/me/devices/" + w.Alice.Ids["device_id"] + "/install-config"} {
			if a := w.Alice.Do("GET", path, nil, 200); strings.Contains(string(a.Body), long[:2000]) || strings.Contains(string(a.Body), strings.Repeat("9", 2000)) {
				t.Errorf("%s holds what is too long", path)
			}
		}
		w.WellAfter(t)
	})
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"n%d.example.org"`, i)
	}
	return b.String()
}
