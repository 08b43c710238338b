package devices

import (
	"io"
	"net/http"
)

// page is what verification_uri names until the console has its own.
func (s *Service) page(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, err := io.WriteString(w, approvalPage)
	return err
}

const approvalPage = `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Approve a device</title>
<h1>Approve a device</h1>
<p>A device shows a code of the form <code>XXXX-XXXX</code> and waits for you to approve it. Approve only a device that you started yourself.</p>
<p>Sign in, then send the code with your session:</p>
<pre>
POST /auth/device
Content-Type: application/json

{"action": "device_verify", "user_code": "XXXX-XXXX"}
</pre>
<p>Add <code>"approve": false</code> to refuse it.</p>
</html>
`
