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
// waits behind a code, and takes the decision (RFC 8628 section 3.3).
func approvalPage() func(http.ResponseWriter, *http.Request) error {
	document := web.NewDocument(pageHTML, pageStyle, pageScript)
	return func(w http.ResponseWriter, _ *http.Request) error { return document.Serve(w) }
}
