package apptest

import (
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/providers/providertest"
)

// WithProviders sets up the three at local addresses.
func WithProviders(t *testing.T, c *app.Config) (providertest.GitHub, providertest.Weixin, *providertest.OIDC) {
	t.Helper()
	github, weixin, corp := providertest.StartGitHub(t), providertest.StartWeixin(t), providertest.StartOIDC(t)
	c.GitHub = "client_id=" + github.ClientID + ",client_secret=" + github.ClientSecret + ",url=" + github.URL
	c.Weixin = "app_id=" + weixin.ClientID + ",app_secret=" + weixin.ClientSecret + ",authorize_url=" + weixin.URL + "/connect/qrconnect,api_url=" + weixin.URL
	c.OIDC = []string{"name=corp,title=Corp,issuer=" + corp.URL + ",client_id=" + corp.ClientID + ",client_secret=" + corp.ClientSecret}
	c.ProviderAllowCIDRs = []string{"127.0.0.0/8"}
	c.Registration = "open"
	return github, weixin, corp
}
