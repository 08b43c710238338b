package app

import "net/http"

// oneAnswer ends the connection after a request whose end an intermediary may
// see elsewhere than we do. net/http takes a request with Content-Length and
// Transfer-Encoding, as RFC 9112 section 6.1 allows, but goes on with the
// connection, which that section forbids; by the time a handler runs only the
// encoding tells. A request of HTTP/1.0 may hold an encoding that was ignored.
func oneAnswer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
