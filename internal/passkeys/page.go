package passkeys

import (
	_ "embed"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

//go:embed page/account.html
var pageHTML []byte

//go:embed page/account.css
var pageStyle []byte

//go:embed page/account.js
var pageScript []byte

func (s *Service) mountPage(m *web.Mux) {
	document := web.NewDocument(pageHTML, pageStyle, web.WithProof(pageScript))
	web.Raw(m, "GET /account", access.Public(), 0, func(w http.ResponseWriter, r *http.Request) error {
		if to := s.elsewhere(r); to != "" {
			http.Redirect(w, r, to, http.StatusFound) //nolint:gosec // origin and path are ours; only the query is the caller's
			return nil
		}
		w.Header().Set("Permissions-Policy", "publickey-credentials-create=(self), publickey-credentials-get=(self)")
		return document.Serve(w)
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
	if r.URL.RawQuery != "" {
		return s.rp.origin + "/account?" + r.URL.RawQuery
	}
	return s.rp.origin + "/account"
}
