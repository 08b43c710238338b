package app_test

import (
	"fmt"
	"testing"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// One user's hundreds of attempts at an authority that hangs delay nobody
// else's certificate.
func TestHangingAuthorityDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		c := settings(t, db)
		c.Quota = []string{"attempts-per-hour=1000"}
		p := start(t, c, app.Options{}, nil)
		account := func(who *caller, ca *hostile.CA) int64 {
			var made struct{ ID int64 }
			who.do("POST", "/apiv1/me/acme-accounts", map[string]any{
				"name": "ca", "provider": "custom", "directory_url": ca.DirectoryURL, "ca_bundle_pem": ca.CABundlePEM,
			}, 201).data(t, &made)
			return made.ID
		}
		hanging, prompt := hostile.Start(t), hostile.Start(t)
		hanging.Always(hostile.NewOrder, hostile.Hang())
		alice, bob := p.person("alice@example.org"), p.person("bob@example.org")
		hers, his := account(alice, hanging), account(bob, prompt)
		for i := range 150 {
			cert := alice.certificate(hers, fmt.Sprintf("n%d.example.test", i))
			alice.do("POST", fmt.Sprintf("/apiv1/me/certificates/%d/issues", cert), nil, 201)
		}
		for i := range 10 { // issue fails the test after 30 s; this one took minutes
			if done := bob.issue(bob.certificate(his, fmt.Sprintf("b%d.example.test", i))); done.Status != "SUCCESS" {
				t.Errorf("%+v", done)
			}
		}
	})
}
