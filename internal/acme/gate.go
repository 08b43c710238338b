package acme

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/outbound"
)

// maxAnswer bounds every body of a CA, in bytes. The longest honest one is a
// directory or a certificate chain of some kilobytes.
const maxAnswer = 256 << 10

// step is what happened during one call of the protocol library.
type step struct {
	op     string
	cancel context.CancelFunc

	answered   bool     // a request other than for a nonce got a success
	badNonce   bool     // the CA refused the nonce
	problem    *Problem // the first failure; nothing is sent after it
	retryAfter time.Duration
	body       []byte // of the last success
	json       bool   // its Content-Type was application/json
}

type stepKey struct{}

// gate is the transport of the protocol library and the only way to the CA. A
// failure ends the step at once: the library's own repetitions with their
// pauses would place an order twice or wait where the caller must decide.
type gate struct {
	client    *Client
	directory []byte // what GET of directoryHost answers
	nonceURL  string
}

// directoryHost stands for the directory towards the library. It is fetched by
// Client, checked, and handed out here, so that the library's process-wide
// lock is not held while a CA hangs.
const directoryHost = "directory.acme.invalid"

func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == directoryHost {
		header := http.Header{"Content-Type": {"application/json"}}
		return answer(req, http.StatusOK, header, g.directory), nil
	}
	s, ok := req.Context().Value(stepKey{}).(*step)
	if !ok || s.problem != nil || s.badNonce {
		return nil, fmt.Errorf("step ended: %w", context.Canceled)
	}
	op := s.op
	if req.URL.String() == g.nonceURL {
		op = opNewNonce
	}
	resp, body, err := g.client.exchange(req)
	if err != nil {
		s.fail(failure(op, err))
		return nil, err
	}
	header := g.filter(resp.Header)
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		s.refused(fromAnswer(op, resp.StatusCode, header, body, g.client.now()))
	case op == opNewNonce:
		if header.Get("Replay-Nonce") == "" {
			s.fail(bad(op, Retry, ErrBadAnswer, "the CA gave no nonce"))
		}
	default:
		s.answered = true
		s.body, s.json = body, mediaType(header) == "application/json"
		s.retryAfter = outbound.RetryAfter(header, g.client.now(), maxRetryAfter)
	}
	return answer(req, resp.StatusCode, header, body), nil
}

var nonceForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,512}$`)

// filter copies the headers the library may see. A nonce that is not base64url
// is ignored (RFC 8555 section 6.5.1). Links are left out, since the library
// would follow chains of them without end.
func (g *gate) filter(in http.Header) http.Header {
	out := http.Header{"Content-Type": {mediaType(in)}}
	for _, name := range []string{"Location", "Replay-Nonce", "Retry-After"} {
		if value := in.Get(name); value != "" {
			out.Set(name, value)
		}
	}
	if !nonceForm.MatchString(out.Get("Replay-Nonce")) {
		out.Del("Replay-Nonce")
	}
	return out
}

func (s *step) refused(p *Problem) {
	if strings.TrimPrefix(p.Type, urn) == "badNonce" {
		s.badNonce = true
		s.cancel()
		return
	}
	s.fail(p)
}

func (s *step) fail(p *Problem) {
	s.problem = p
	s.cancel()
}

// exchange performs one request within the limits and reads its whole answer.
// Redirects come back as they are.
func (c *Client) exchange(req *http.Request) (*http.Response, []byte, error) {
	target, err := checkURL(req.URL.String())
	if err != nil {
		return nil, nil, err
	}
	// Only the origin an administrator's exception was made for profits from
	// it; whatever else the CA points to must be public.
	client := c.elsewhere
	if origin(target) == c.origin {
		client = c.home
	}
	resp, err := client.Do(req.Clone(req.Context()))
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", req.Method, target.Redacted(), err)
	}
	defer resp.Body.Close()
	body, err := outbound.ReadLimited(resp.Body, maxAnswer)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", req.Method, target.Redacted(), err)
	}
	return resp, body, nil
}

func answer(req *http.Request, status int, header http.Header, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}
