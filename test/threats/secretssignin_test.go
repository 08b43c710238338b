package threats_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
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
	github, weixin, corp := apptest.WithProviders(t, c)
	c.BaseURL = "https://certs.example.org"
	return &signIns{
		servers: map[string]*providertest.Server{"/auth/github": github.Server, "/auth/weixin": weixin.Server, "/auth/oidc/corp": corp.Server},
		tokens:  map[string]string{"/auth/github": providertest.GitHubToken, "/auth/weixin": providertest.WeixinToken, "/auth/oidc/corp": providertest.OIDCToken},
	}
}

// session signs in, and fails to in every way in which a secret could get into
// an error, and returns the secrets.
func (s *signIns) session(v *visit) (needles []apptest.Needle) {
	t := v.t
	v.s.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, server := range s.servers {
		server.SignedIn(providertest.Person{ID: "4711", Name: "canary"})
		needles = append(needles, apptest.Needle{Name: "secret of " + path, Value: server.ClientSecret}, apptest.Needle{Name: "secret of " + path + " in a query", Value: url.QueryEscape(server.ClientSecret)})
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
			cookie, _, _ := strings.Cut(begun.Header.Get("Set-Cookie"), ";")
			_, secret, _ := strings.Cut(cookie, "=")
			address := begun.Header.Get("Location")
			state := parsed(t, address).Query().Get("state")
			needles = append(needles, apptest.Needle{Name: "state of " + path + name, Value: state, Answers: []string{path + name + " begin"}},
				apptest.Needle{Name: "login cookie of " + path + name, Value: secret, Answers: []string{path + name + " begin"}})
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
			needles = append(needles, apptest.Needle{Name: "code of " + path + name, Value: back.Query().Get("code")})
			signedIn := v.as(cookie, "").do(path+name+" callback", "GET", back.RequestURI(), nil, 303, 401, 503)
			if (signedIn.Status == 303) != (name == "") {
				t.Errorf("%s%s: %d", path, name, signedIn.Status)
			}
			v.as(cookie, "").do(path+name+" callback twice", "GET", back.RequestURI(), nil, 401)
			if name == "" {
				session, _, _ := strings.Cut(signedIn.Header.Get("Set-Cookie"), ";")
				_, token, _ := strings.Cut(session, "=")
				needles = append(needles, apptest.Needle{Name: "session of " + path, Value: token, Answers: []string{path + " callback"}}, hashed(token))
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
