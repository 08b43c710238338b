package passkeys

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// The page is one document without anything from elsewhere, so that its policy
// can name the two digests and forbid everything else.
//
//go:embed page/account.html
var pageHTML []byte

//go:embed page/account.css
var pageStyle []byte

//go:embed page/account.js
var pageScript []byte

// page is the document and its Content-Security-Policy.
func page() (document []byte, policy string) {
	document = bytes.Replace(pageHTML, []byte("/*style*/"), pageStyle, 1)
	document = bytes.Replace(document, []byte("/*script*/"), pageScript, 1)
	return document, "default-src 'none'; connect-src 'self'; script-src " + digest(pageScript) + "; style-src " + digest(pageStyle) +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (s *Service) mountPage(m *web.Mux) {
	document, policy := page()
	web.Raw(m, "GET /account", access.Public(), 0, func(w http.ResponseWriter, r *http.Request) error {
		if to := s.elsewhere(r); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return nil
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Permissions-Policy", "publickey-credentials-create=(self), publickey-credentials-get=(self)")
		_, err := w.Write(document)
		return err
	})
}

// elsewhere is where the page can use passkeys when it was asked for at a
// loopback address that goes by the name localhost, else "".
func (s *Service) elsewhere(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	address, err := netip.ParseAddr(host)
	if err != nil || !address.IsLoopback() || s.rp.id != "localhost" {
		return ""
	}
	to, err := url.Parse(s.rp.origin)
	if err != nil || to.Host == r.Host {
		return ""
	}
	return s.rp.origin + "/account"
}
