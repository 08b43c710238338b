package life_test

import (
	"fmt"
	"testing"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// One user's hundreds of attempts at an authority that hangs delay nobody
// else's certificate.
func TestHangingAuthorityDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		c := apptest.Settings(t, db)
		c.Quota = []string{"attempts-per-hour=1000"}
		p := apptest.Start(t, c, app.Options{}, nil)
		account := func(who *apptest.Caller, ca *hostile.CA) int64 {
			var made struct{ ID int64 }
			who.Do("POST", "/apiv1/me/acme-accounts", map[string]any{
				"name": "ca", "provider": "custom", "directory_url": ca.DirectoryURL, "ca_bundle_pem": ca.CABundlePEM,
			}, 201).Data(t, &made)
			return made.ID
		}
		hanging, prompt := hostile.Start(t), hostile.Start(t)
		hanging.Always(hostile.NewOrder, hostile.Hang())
		alice, bob := p.Person("alice@example.org"), p.Person("bob@example.org")
		hers, his := account(alice, hanging), account(bob, prompt)
		for i := range 150 {
			cert := alice.Certificate(hers, fmt.Sprintf("n%d.example.test", i))
			alice.Do("POST", fmt.Sprintf("/apiv1/me/certificates/%d/issues", cert), nil, 201)
		}
		for i := range 10 { // issue fails the test after 30 s; this one took minutes
			if done := bob.Issue(bob.Certificate(his, fmt.Sprintf("b%d.example.test", i))); done.Status != "SUCCESS" {
				t.Errorf("%+v", done)
			}
		}
	})
}
