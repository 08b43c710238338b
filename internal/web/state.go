package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"
	"sync/atomic"

	"certharbor.dev/certharbor/internal/access"
)

// state is what the chain knows of one request.
type state struct {
	id      string
	w       *writer
	request *http.Request // as it arrived
	client  string        // for ClientIP
	overTLS bool          // for OverTLS
	me      bool          // the path came as /apiv1/me/…
	caller  *access.Caller
	decoded func()                               // the body has been decoded; nil: it was small
	cause   error                                // for the log
	refused func(ctx context.Context, r Refusal) // nil: nobody asks, or it has been told
}

type stateKey struct{}

func stateFrom(ctx context.Context) *state {
	s, _ := ctx.Value(stateKey{}).(*state)
	return s
}

// RequestID returns the id of the request, or "" outside of one.
func RequestID(ctx context.Context) string {
	if s := stateFrom(ctx); s != nil {
		return s.id
	}
	return ""
}

// writer remembers the status and holds it back until the first byte, so that
// an answer that cannot be encoded still becomes an error.
type writer struct {
	http.ResponseWriter
	status int
	wrote  bool     // the status line has been sent
	hold   *receipt // what the answer has reserved; nil: nothing
}

// WriteHeader implements http.ResponseWriter; informational statuses pass.
func (w *writer) WriteHeader(status int) {
	if status < http.StatusOK {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if !w.wrote {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	if w.hold != nil {
		w.hold.becomes(int64(len(b)))
	}
	w.finish()
	return w.ResponseWriter.Write(b)
}

// release gives back what the answer has reserved.
func (w *writer) release() {
	if w.hold != nil {
		w.hold.release()
		w.hold = nil
	}
}

// Flush implements http.Flusher.
func (w *writer) Flush() {
	w.finish()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap serves http.ResponseController and WebSocket upgrades.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) finish() {
	if !w.wrote {
		w.wrote = true
		w.ResponseWriter.WriteHeader(w.status)
	}
}

// requestIDs are unique over restarts and cost no entropy per request.
type requestIDs struct {
	prefix string
	n      *atomic.Uint64
}

func newRequestIDs() requestIDs {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return requestIDs{prefix: hex.EncodeToString(b[:]) + "-", n: new(atomic.Uint64)}
}

func (g requestIDs) next() string { return g.prefix + strconv.FormatUint(g.n.Add(1), 36) }
