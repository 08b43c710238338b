package devices

import (
	_ "embed"
	"net/http"

	"certharbor.dev/certharbor/internal/web"
)

//go:embed page/device.html
var pageHTML []byte

//go:embed page/device.css
var pageStyle []byte

//go:embed page/device.js
var pageScript []byte

// approvalPage is what verification_uri names: it shows a signed-in user what
// waits behind a code, and takes the decision (RFC 8628 section 3.3). It asks
// for the fresh proof that an approval needs, and goes on.
func approvalPage() func(http.ResponseWriter, *http.Request) error {
	document := web.NewDocument(pageHTML, pageStyle, web.WithProof(pageScript))
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Permissions-Policy", "publickey-credentials-get=(self)")
		return document.Serve(w)
	}
}
