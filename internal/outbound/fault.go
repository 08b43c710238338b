package outbound

import (
	"io"
	"net/http"
)

// Fault says what fault mode does to one request.
type Fault int

// The faults. Tests use them to see that nothing is done twice, and nothing
// forgotten, when an answer is lost.
const (
	// NoFault leaves the request alone.
	NoFault Fault = iota
	// LoseAnswer performs the request to its end; the caller sees ErrLostAnswer.
	LoseAnswer
	// LoseRequest does not perform it; the caller sees ErrLostAnswer.
	LoseRequest
)

// faulty is the transport of fault mode.
type faulty struct {
	next   http.RoundTripper
	choose func(*http.Request) Fault
}

func (f faulty) RoundTrip(req *http.Request) (*http.Response, error) {
	fault := f.choose(req)
	if fault == LoseRequest {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, ErrLostAnswer
	}
	resp, err := f.next.RoundTrip(req)
	if fault == NoFault || err != nil {
		return resp, err
	}
	// The answer is read so that the other side has certainly finished.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	_ = resp.Body.Close()
	return nil, ErrLostAnswer
}

func (f faulty) CloseIdleConnections() { closeIdle(f.next) }
