package providers

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/providers/providertest"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestProvidersThatFail: whatever a provider does, the browser gets one sentence
// in time, nothing of what the provider said, and nobody is signed in.
func TestProvidersThatFail(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t), func(d *Deps) { d.Outbound.Timeout = 500 * time.Millisecond })
	elsewhere := 0
	canary := providertest.StartGitHub(t)
	canary.Fault("/stolen", func(http.ResponseWriter, *http.Request) { elsewhere++ })
	faults := map[string]http.HandlerFunc{
		"hang": providertest.Hang, "500": providertest.Broken, "garbage": providertest.Garbage, "nothing": providertest.Empty, "huge": providertest.Huge,
		"endless": providertest.Endless, "redirect": providertest.Redirect(canary.URL + "/stolen"), "null": providertest.Answer(200, "application/json", "null"),
		"a list": providertest.Answer(200, "application/json", "[1]"), "other types": providertest.Answer(200, "application/json", `{"access_token":5,"id":"x","openid":[],"sub":{}}`),
		"404": providertest.Answer(404, "text/plain", providertest.Upstream), "429": providertest.Answer(429, "text/plain", providertest.Upstream),
		"an odd error": providertest.Answer(200, "application/json", `{"error":"`+providertest.Upstream+` <b>","errcode":"x"}`),
	}
	sites := map[string]kind{}
	for _, k := range h.kinds() {
		sites[k.tokenPath] = k
	}
	sites[providertest.GitHubUser], sites[providertest.GitHubEmails] = h.kinds()[0], h.kinds()[0]
	for path, k := range sites {
		for name, fault := range faults {
			if path == providertest.GitHubEmails && (name == "404" || name == "null") { // without an address, then
				continue
			}
			k.server.Fault(path, fault)
			b := h.browser()
			before := h.audited(t, 0, "session.sign_in_refused")
			w := b.signIn(t, k, providertest.Person{ID: "1815", Name: "somebody"})
			if w.Code != http.StatusServiceUnavailable && w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), providertest.Upstream) {
				t.Errorf("%s at %s: %d %s", name, path, w.Code, w.Body)
			}
			if b.who(t) != 0 || h.audited(t, 0, "session.sign_in_refused") != before+1 {
				t.Errorf("%s at %s: signed in, or not recorded", name, path)
			}
		}
		k.server.Fault(path, nil)
		want(t, h.browser().signIn(t, k, providertest.Person{ID: "1815", Name: "somebody"}), http.StatusSeeOther, "")
	}
	if elsewhere != 0 {
		t.Errorf("%d redirects were followed", elsewhere)
	}
}

// TestKeysThatFail: the keys of an OpenID Connect provider cannot be had.
func TestKeysThatFail(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]http.HandlerFunc{
		"hang": providertest.Hang, "500": providertest.Broken, "huge": providertest.Huge, "garbage": providertest.Garbage, "none": providertest.Answer(200, "application/json", `{"keys":[]}`),
		"a secret": providertest.Answer(200, "application/json", `{"keys":[{"kty":"oct","k":"AAAA","alg":"HS256"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t, dbtest.SQLite(t), func(d *Deps) { d.Outbound.Timeout = 500 * time.Millisecond })
			k := h.kinds()[2]
			h.corp.Fault(providertest.OIDCKeys, fault)
			b := h.browser()
			w := b.signIn(t, k, grace())
			lost := name == "hang" || name == "500" || name == "huge"
			if lost != (w.Code == http.StatusServiceUnavailable) || !lost && w.Code != http.StatusUnauthorized || b.who(t) != 0 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			h.corp.Fault(providertest.OIDCKeys, nil)
			want(t, h.browser().signIn(t, k, grace()), http.StatusSeeOther, "")
		})
	}
}

// TestCodesThatAreRefused: expired, used elsewhere, given out for another place,
// another verifier, denied; the real providers' ways to say so.
func TestCodesThatAreRefused(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	for _, k := range h.kinds() {
		k.server.SignedIn(providertest.Person{ID: "1815", Name: "somebody"})
		refused := func(name string, change func(b *browser, address string) (path string)) {
			b := h.browser()
			w := b.get(change(b, b.begin(t, k)))
			if w.Code != http.StatusUnauthorized || b.who(t) != 0 || strings.Contains(w.Body.String(), providertest.Upstream) {
				t.Errorf("%s, %s: %d %s", k.code, name, w.Code, w.Body)
			}
		}
		refused("expired", func(_ *browser, address string) string {
			path := visit(t, k, address)
			k.server.ExpireCodes()
			return path
		})
		refused("used", func(_ *browser, address string) string {
			path := visit(t, k, address)
			state := parameter(t, path, "state")
			other := h.browser()
			second := visit(t, k, other.begin(t, k))
			want(t, other.get(second), http.StatusSeeOther, "")
			return k.path + "/callback?state=" + state + "&code=" + parameter(t, second, "code")
		})
		refused("unknown", func(_ *browser, address string) string {
			return k.path + "/callback?code=x&state=" + parameter(t, address, "state")
		})
		refused("none", func(_ *browser, address string) string {
			return k.path + "/callback?state=" + parameter(t, address, "state")
		})
		refused("denied", func(_ *browser, address string) string {
			k.server.Deny(true)
			defer k.server.Deny(false)
			return visit(t, k, address)
		})
		refused("an error", func(_ *browser, address string) string {
			return k.path + "/callback?error=server_error&error_description=" + providertest.Upstream + "&code=x&state=" + parameter(t, address, "state")
		})
		refused("an odd error", func(_ *browser, address string) string {
			return k.path + "/callback?error=" + providertest.Upstream + "&state=" + parameter(t, address, "state")
		})
		if k.code != "weixin" { // which has neither
			refused("another redirect_uri", func(_ *browser, address string) string {
				return visit(t, k, strings.Replace(address, url.QueryEscape("/callback"), url.QueryEscape("/callback?x=y"), 1))
			})
			refused("another challenge", func(_ *browser, address string) string {
				return visit(t, k, strings.Replace(address, parameter(t, address, "code_challenge"), strings.Repeat("A", 43), 1))
			})
		}
		path := visit(t, k, h.browser().begin(t, k))
		want(t, h.browser().get(path+"&state=x"), http.StatusBadRequest, "state: must be there once")
	}
}

// TestSecretsThatAreWrong: the operator's mistakes are not the person's.
func TestSecretsThatAreWrong(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	for _, k := range h.kinds() {
		k.server.ClientSecret = "another"
		w := h.browser().signIn(t, k, grace())
		if w.Code != http.StatusServiceUnavailable && w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", k.code, w.Code, w.Body)
		}
	}
}

// TestWeixinParameters are those of its documentation, which are not OAuth's.
func TestWeixinParameters(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	k := h.kinds()[1]
	address := h.browser().begin(t, k)
	state := parameter(t, address, "state")
	if wanted := h.weixin.URL + "/connect/qrconnect?appid=wx0123456789abcdef&redirect_uri=https%3A%2F%2Fcerts.example.org%2Fauth%2Fweixin%2Fcallback&response_type=code&scope=snsapi_login&state=" +
		state + "#wechat_redirect"; address != wanted {
		t.Errorf("got  %s\nwant %s", address, wanted)
	}
	if len(state) != 64 || strings.Trim(state, "0123456789abcdef") != "" {
		t.Errorf("state %s", state)
	}
	// A name is nice to have.
	k.server.Fault("/stolen", func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	for _, fault := range []http.HandlerFunc{
		providertest.Broken, providertest.Garbage, providertest.Redirect(k.server.URL + "/stolen"), providertest.Answer(200, "text/plain", `{"errcode":48001}`),
		providertest.Answer(200, "text/plain", `{"openid":"another","nickname":"x"}`),
	} {
		k.server.Fault(providertest.WeixinUser, fault)
		b := h.browser()
		want(t, b.signIn(t, k, grace()), http.StatusSeeOther, "")
		if name := b.bindings(t)[0].Name; name != "" {
			t.Errorf("name %q", name)
		}
	}
}

// TestGitHubParameters: PKCE with S256, and the scope for the address alone.
func TestGitHubParameters(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	u, err := url.Parse(h.browser().begin(t, h.kinds()[0]))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || q.Get("scope") != "user:email" ||
		q.Get("redirect_uri") != origin+"/auth/github/callback" || q.Get("response_type") != "code" {
		t.Errorf("%s", u)
	}
	// Somebody who did not grant the scope has no address here.
	h.github.Fault(providertest.GitHubEmails, providertest.Answer(http.StatusNotFound, "application/json", `{"message":"Not Found"}`))
	b := h.browser()
	want(t, b.signIn(t, h.kinds()[0], grace()), http.StatusSeeOther, "")
	if h.number(t, "SELECT COUNT(*) FROM users WHERE id = $1 AND email = ''", b.who(t)) != 1 {
		t.Error("an address nevertheless")
	}
}
