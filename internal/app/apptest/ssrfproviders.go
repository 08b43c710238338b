package apptest

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
)

// TrySignIn signs in at the path as far as it goes: the answer of the callback, or of
// the beginning when it does not get farther.
func (p *Program) TrySignIn(path string) *Answer {
	p.T.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.T.Fatal(err)
	}
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(address string) *Answer {
		r, err := http.NewRequestWithContext(p.T.Context(), http.MethodGet, address, nil)
		if err != nil {
			p.T.Fatal(err)
		}
		r.Host = "certs.example.org" // the public name; a loopback address would be sent to localhost
		response, err := client.Do(r)
		if err != nil {
			p.T.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			p.T.Fatal(err)
		}
		return &Answer{response.StatusCode, response.Header, body}
	}
	begun := get(p.URL + path)
	if begun.Status != http.StatusSeeOther {
		return begun
	}
	u, err := url.Parse(begun.Header.Get("Location"))
	if err != nil {
		p.T.Fatal(err)
	}
	return get(p.URL + path + "/callback?code=x&state=" + u.Query().Get("state"))
}
