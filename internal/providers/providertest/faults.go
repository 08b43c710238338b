package providertest

import (
	"io"
	"net/http"
	"strings"
)

// Upstream is in what the faults say, and in nothing that a user may read.
const Upstream = "UPSTREAM-TEXT-9c2e"

// Hang never answers; it ends with the connection.
func Hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the end of a connection is noticed when the body was read
	<-r.Context().Done()
}

// Broken answers with 500.
func Broken(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, Upstream, http.StatusInternalServerError)
}

// Garbage answers with what is not JSON.
func Garbage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("<html>" + Upstream))
}

// Empty answers with nothing.
func Empty(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// Huge answers with more than anybody should read.
func Huge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"access_token":"` + strings.Repeat("a", 4<<20) + `"}`))
}

// Endless answers bit by bit for ever.
func Endless(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte(" ")); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}

// Redirect answers with a redirect to the address.
func Redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}
}

// Answer answers with the status and body.
func Answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// Cut ends the connection in the middle.
func Cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
