package providers

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"maps"
	"net/http"
	"strings"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

// mountBrowser adds the two routes to which browsers are sent. name says which
// provider a request is for, by code and kind.
func (s *Service) mountBrowser(m *web.Mux, path string, name func(*http.Request) (code, kind string)) {
	serve := func(step func(http.ResponseWriter, *http.Request, provider) error) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			p, err := s.provider(name(r))
			title := "a provider"
			if err == nil {
				title = p.about().Title
				err = step(w, r, p)
			}
			if err != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
				return refusalPage(w, r, title, err)
			}
			return err
		}
	}
	web.Raw(m, "GET "+path, access.Public(), 0, serve(s.leave))
	web.Raw(m, "GET "+path+"/callback", access.Optional(), 0, serve(s.comeBack))
}

// leave sends the browser to the provider.
func (s *Service) leave(w http.ResponseWriter, r *http.Request, p provider) error {
	if to := s.elsewhere(r); to != "" {
		redirect(w, to)
		return nil
	}
	address, cookie, err := s.start(r.Context(), p, r.URL.Query().Get("to"))
	if err != nil {
		return err
	}
	http.SetCookie(w, cookie)
	redirect(w, address)
	return nil
}

// elsewhere is the same request at the address to which the provider sends the
// browser back, when it came to a loopback address that goes by localhost.
func (s *Service) elsewhere(r *http.Request) string {
	if !loopback(r.Host) || !strings.HasPrefix(s.host, "localhost") {
		return ""
	}
	return s.origin + r.URL.RequestURI()
}

// comeBack ends the attempt.
func (s *Service) comeBack(w http.ResponseWriter, r *http.Request, p provider) error {
	query := r.URL.Query()
	for _, name := range []string{"state", "code", "error", "iss"} {
		if len(query[name]) > 1 {
			return fault.Invalid(name, "must be there once")
		}
	}
	const maxParameter = 4096
	in := answer{state: query.Get("state"), code: query.Get("code"), problem: query.Get("error"), issuer: query.Get("iss")}
	if len(in.state) > maxParameter || len(in.code) > maxParameter {
		return errAttempt()
	}
	end, err := s.complete(r.Context(), p, in)
	if err != nil {
		return err
	}
	for _, cookie := range end.cookies {
		http.SetCookie(w, cookie)
	}
	redirect(w, end.to)
	return nil
}

// redirect goes on with GET (RFC 9110 section 15.4.4).
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

const refusalStyle = `:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}body{max-width:36rem;margin:3rem auto;padding:0 1rem}`

var refusal = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>CertHarbor: not signed in</title>
<style>` + refusalStyle + `</style>
<h1>Not signed in with {{.Title}}</h1>
<p role="alert">{{.What}}</p>
<p><a href="/account">Back to the account page</a></p>
</html>
`))

func refusalPolicy() string {
	sum := sha256.Sum256([]byte(refusalStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// refusalPage says to a person what the error envelope says to a program.
func refusalPage(w http.ResponseWriter, r *http.Request, title string, err error) error {
	status, header, what := web.Describe(r.Context(), err)
	var page bytes.Buffer
	if err := refusal.Execute(&page, map[string]string{"Title": title, "What": what}); err != nil {
		return err
	}
	maps.Copy(w.Header(), header)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", refusalPolicy())
	w.WriteHeader(status)
	_, err = w.Write(page.Bytes())
	return err
}
