package providertest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// GitHub is github.com and its API at one address: the API is at /api/v3, as it
// is at a GitHub Enterprise Server.
type GitHub struct{ *Server }

// The paths of GitHub.
const (
	GitHubToken  = "/login/oauth/access_token" //nolint:gosec // a path
	GitHubUser   = "/api/v3/user"
	GitHubEmails = "/api/v3/user/emails"
)

// StartGitHub starts one with an OAuth app.
func StartGitHub(t testing.TB) GitHub {
	g := &GitHub{}
	g.Server = start(t, map[string]http.HandlerFunc{
		"/login/oauth/authorize": g.authorize, GitHubToken: g.redeemCode, GitHubUser: g.user, GitHubEmails: g.emails,
	}, "Iv1.github-client", "github-secret-canary-4d1a")
	return *g
}

func (g *GitHub) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != g.ClientID || q.Get("code_challenge_method") != "S256" {
		http.NotFound(w, r)
		return
	}
	g.grantCode(w, r, url.Values{"error": {"access_denied"}, "error_description": {"The user has denied your application access. " + Upstream}})
}

// redeemCode tells of errors with status 200, and answers in the form encoding
// unless JSON is asked for.
func (g *GitHub) redeemCode(w http.ResponseWriter, r *http.Request) {
	answer := func(values map[string]string) {
		if strings.Contains(r.Header.Get("Accept"), "application/json") {
			writeJSON(w, "application/json; charset=utf-8", http.StatusOK, values)
			return
		}
		form := url.Values{}
		for name, value := range values {
			form.Set(name, value)
		}
		w.Header().Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		_, _ = w.Write([]byte(form.Encode()))
	}
	if r.Method != http.MethodPost || r.FormValue("client_id") != g.ClientID || r.FormValue("client_secret") != g.ClientSecret {
		answer(map[string]string{"error": "incorrect_client_credentials", "error_description": Upstream})
		return
	}
	grant, wrong := g.redeem(r.FormValue("code"), r.FormValue("redirect_uri"), r.FormValue("code_verifier"), true)
	switch wrong {
	case codeGood:
		answer(map[string]string{"access_token": g.token(grant.who), "scope": "user:email", "token_type": "bearer"})
	case codeElsewhere:
		answer(map[string]string{"error": "redirect_uri_mismatch", "error_description": Upstream})
	default:
		answer(map[string]string{"error": "bad_verification_code", "error_description": Upstream})
	}
}

func (g *GitHub) holder(w http.ResponseWriter, r *http.Request) (Person, bool) {
	if r.UserAgent() == "" || strings.HasPrefix(r.UserAgent(), "Go-http-client") {
		writeJSON(w, "application/json", http.StatusForbidden, map[string]string{"message": "Request forbidden by administrative rules."})
		return Person{}, false
	}
	p, ok := g.Server.holder(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if !ok {
		writeJSON(w, "application/json", http.StatusUnauthorized, map[string]string{"message": "Bad credentials"})
	}
	return p, ok
}

func (g *GitHub) user(w http.ResponseWriter, r *http.Request) {
	if p, ok := g.holder(w, r); ok {
		writeJSON(w, "application/json", http.StatusOK, map[string]any{"id": json.Number(p.ID), "login": p.Name, "email": "public-" + p.Email, "name": "Somebody"})
	}
}

func (g *GitHub) emails(w http.ResponseWriter, r *http.Request) {
	p, ok := g.holder(w, r)
	if !ok {
		return
	}
	list := []map[string]any{{"email": "second-" + p.Email, "primary": false, "verified": true}}
	if p.Email != "" {
		list = append(list, map[string]any{"email": p.Email, "primary": true, "verified": p.Verified})
	}
	writeJSON(w, "application/json", http.StatusOK, list)
}
