package threats_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/providers/providertest"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// judgeSignIn fails for a success, and for an answer that tells too much.
func judgeSignIn(t *testing.T, name string, a *apptest.Answer) {
	t.Helper()
	if a.Status != 503 && a.Status != 401 || strings.Contains(string(a.Body), upstream) || strings.Contains(string(a.Body), providertest.Upstream) {
		t.Errorf("%s: %d %s", name, a.Status, a.Body)
	}
}

// A provider whose name leads inside is called at no site, unless the settings
// allow the range.
func TestSSRFByProvider(t *testing.T) {
	t.Parallel()
	canary := apptest.NewCanary(t)
	names := []string{"127.0.0.1", "localhost", "[::1]"} // what the settings admit over http as well
	for name := range apptest.InsideNames {
		names = append(names, name)
	}
	c := apptest.Settings(t, dbtest.SQLiteConfig(t))
	c.BaseURL = "http://certs.example.org"
	for i, host := range apptest.InsideHosts() {
		setting := fmt.Sprintf("name=h%d,issuer=https://%s:%s,client_id=a", i, host, canary.Port)
		if u, err := url.Parse("https://" + host + "/"); err == nil && u.Host != "" {
			c.OIDC = append(c.OIDC, setting)
		}
	}
	if len(c.OIDC) < 30 {
		t.Fatalf("only %d providers", len(c.OIDC))
	}
	p := apptest.Start(t, c, app.Options{Lookup: apptest.EvilLookup}, nil)
	for _, setting := range c.OIDC {
		name, _, _ := strings.Cut(strings.TrimPrefix(setting, "name="), ",")
		judgeSignIn(t, setting, p.TrySignIn("/auth/oidc/"+name))
	}
	for _, host := range names {
		place := host + ":" + canary.Port
		c := apptest.Settings(t, dbtest.SQLiteConfig(t))
		c.BaseURL = "http://certs.example.org"
		c.GitHub = "client_id=a,client_secret=b,url=https://" + place
		c.Weixin = "app_id=a,app_secret=b,api_url=https://" + place
		p := apptest.Start(t, c, app.Options{Lookup: apptest.EvilLookup}, nil)
		judgeSignIn(t, "github at "+place, p.TrySignIn("/auth/github"))
		judgeSignIn(t, "weixin at "+place, p.TrySignIn("/auth/weixin"))
	}
}

// A provider that may be called leads nowhere else: not by a redirect from any
// site, not by the addresses in its discovery document.
func TestSSRFByProvidersAnswers(t *testing.T) {
	t.Parallel()
	canary := apptest.NewCanary(t)
	c := apptest.Settings(t, dbtest.SQLiteConfig(t))
	c.BaseURL = "http://certs.example.org"
	github, weixin, corp := apptest.WithProviders(t, &c)
	c.ProviderAllowCIDRs = []string{"127.0.0.1/32"}
	c.GitHub += ",api_url=" + github.URL + "/api/v3"
	token := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"a","token_type":"Bearer","openid":"o","id_token":"eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.e30.AAAA"}`)
	}
	p := apptest.Start(t, c, app.Options{Lookup: apptest.EvilLookup}, nil)
	sites := []struct {
		path   string
		server *providertest.Server
		site   string
	}{
		{"/auth/github", github.Server, providertest.GitHubToken}, {"/auth/github", github.Server, providertest.GitHubUser}, {"/auth/github", github.Server, providertest.GitHubEmails},
		{"/auth/weixin", weixin.Server, providertest.WeixinToken}, {"/auth/oidc/corp", corp.Server, providertest.OIDCDiscovery},
		{"/auth/oidc/corp", corp.Server, providertest.OIDCToken}, {"/auth/oidc/corp", corp.Server, providertest.OIDCKeys},
	}
	for _, s := range sites {
		for path, site := range map[string]string{"/auth/github": providertest.GitHubToken, "/auth/weixin": providertest.WeixinToken, "/auth/oidc/corp": providertest.OIDCToken} {
			if path == s.path {
				s.server.Fault(site, token)
			}
		}
		if s.site == providertest.GitHubEmails {
			s.server.Fault(providertest.GitHubUser, providertest.Answer(200, "application/json", `{"id":5,"login":"x"}`))
		}
		for _, target := range []string{"http://127.0.0.1:" + canary.Port + "/", "https://[::1]:" + canary.Port + "/", "http://169.254.169.254/"} {
			before := s.server.Requests(s.site)
			s.server.Fault(s.site, providertest.Redirect(target))
			judgeSignIn(t, s.site+" to "+target, p.TrySignIn(s.path))
			if s.server.Requests(s.site) == before {
				t.Errorf("%s was not asked", s.site)
			}
		}
		s.server.Fault(s.site, nil)
	}
	// The addresses of the document, one at a time, for other hosts than the one
	// that is allowed. Each has a program of its own: a document is believed for an hour.
	for _, member := range []string{"token_endpoint", "jwks_uri"} {
		for _, host := range []string{"127.1.2.3", "[::1]", "0.0.0.0", "six.example", "2130706434", "[::ffff:127.0.0.2]"} {
			document := maps.Clone(corp.Document())
			document[member] = "https://" + host + ":" + canary.Port + "/"
			text, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			corp.Fault(providertest.OIDCDiscovery, providertest.Answer(200, "application/json", string(text)))
			corp.Fault(providertest.OIDCToken, token)
			c.Data, c.GitHub, c.Weixin = t.TempDir(), "", ""
			judgeSignIn(t, member+" at "+host, apptest.Start(t, c, app.Options{Lookup: apptest.EvilLookup}, nil).TrySignIn("/auth/oidc/corp"))
		}
	}
}
