package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/providers/providertest"
)

// signIns are the providers of a session in which secrets are planted.
type signIns struct {
	servers map[string]*providertest.Server // by the path
	tokens  map[string]string
}

// plantSignIns puts the secrets of providers into the settings.
func plantSignIns(t *testing.T, c *app.Config) *signIns {
	t.Helper()
	github, weixin, corp := withProviders(t, c)
	c.BaseURL = "https://certs.example.org"
	return &signIns{
		servers: map[string]*providertest.Server{"/auth/github": github.Server, "/auth/weixin": weixin.Server, "/auth/oidc/corp": corp.Server},
		tokens:  map[string]string{"/auth/github": providertest.GitHubToken, "/auth/weixin": providertest.WeixinToken, "/auth/oidc/corp": providertest.OIDCToken},
	}
}

// session signs in, and fails to in every way in which a secret could get into
// an error, and returns the secrets.
func (s *signIns) session(v *visit) (needles []needle) {
	t := v.t
	v.s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, server := range s.servers {
		server.SignedIn(providertest.Person{ID: "4711", Name: "canary"})
		needles = append(needles, needle{name: "secret of " + path, value: server.ClientSecret}, needle{name: "secret of " + path + " in a query", value: url.QueryEscape(server.ClientSecret)})
		for name, fault := range map[string]http.HandlerFunc{
			"": nil, " cut": providertest.Cut, " broken": providertest.Broken, " garbage": providertest.Garbage, " unfinished": nil,
			" echo": func(w http.ResponseWriter, r *http.Request) { // whatever it was sent
				_ = r.ParseForm()
				id, secret, _ := r.BasicAuth()
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"error":"` + r.Form.Encode() + id + secret + server.ClientSecret + `"}`))
			},
		} {
			server.Fault(s.tokens[path], fault)
			begun := v.do(path+name+" begin", "GET", path, nil, 303)
			cookie, _, _ := strings.Cut(begun.header.Get("Set-Cookie"), ";")
			_, secret, _ := strings.Cut(cookie, "=")
			address := begun.header.Get("Location")
			state := parsed(t, address).Query().Get("state")
			needles = append(needles, needle{name: "state of " + path + name, value: state, answers: []string{path + name + " begin"}},
				needle{name: "login cookie of " + path + name, value: secret, answers: []string{path + name + " begin"}})
			if name == " unfinished" {
				needles = append(needles, hashed(state), hashed(secret))
				continue
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			back := parsed(t, response.Header.Get("Location"))
			needles = append(needles, needle{name: "code of " + path + name, value: back.Query().Get("code")})
			signedIn := v.as(cookie, "").do(path+name+" callback", "GET", back.RequestURI(), nil, 303, 401, 503)
			if (signedIn.status == 303) != (name == "") {
				t.Errorf("%s%s: %d", path, name, signedIn.status)
			}
			v.as(cookie, "").do(path+name+" callback twice", "GET", back.RequestURI(), nil, 401)
			if name == "" {
				session, _, _ := strings.Cut(signedIn.header.Get("Set-Cookie"), ";")
				_, token, _ := strings.Cut(session, "=")
				needles = append(needles, needle{name: "session of " + path, value: token, answers: []string{path + " callback"}}, hashed(token))
			}
		}
	}
	return needles
}

func parsed(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
