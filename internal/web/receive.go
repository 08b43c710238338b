package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
)

// How large a body may be, in bytes: on a route that needs no credential, on
// others, and where certificates, keys or configurations are written (see Large).
const (
	PublicBody  = 16 << 10
	DefaultBody = 64 << 10
	LargeBody   = 1 << 20
)

const (
	// BodiesInFlight is what all bodies together hold, from their first byte to
	// the answer; all that come without a credential, and one caller or address,
	// hold at most their shares of it.
	BodiesInFlight = 64 << 20
	strangersShare = 16 << 20
	callersShare   = 8 << 20
	addressShare   = 1 << 20

	// A body has bodyGrace, and a second for each bodyRate bytes that came.
	bodyGrace = 10 * time.Second
	bodyRate  = 16 << 10
	// An answer waits this long for a body that nobody reads.
	unreadGrace = 5 * time.Second
)

// receipt is what a body holds until the answer is written.
type receipt struct {
	of     *budget
	holder string
	size   int64
	stop   func() // ends what is being received; nil: nothing is
	ended  bool   // it gave way to another
}

func (r *receipt) grow(n int64) error { return r.of.takeFor(r, n) }

func (r *receipt) release() {
	if r.size > 0 {
		r.of.give(r.holder, r.size)
	}
}

// bodies are the budgets of what is being received: of the callers who are
// known, and of all others.
type bodies struct{ callers, strangers *budget }

func newBodies() bodies {
	return bodies{callers: newBudget(BodiesInFlight-strangersShare, callersShare), strangers: newBudget(strangersShare, addressShare)}
}

func (b bodies) receipt(ctx context.Context, caller *access.Caller) *receipt {
	if caller != nil {
		return &receipt{of: b.callers, holder: strconv.FormatInt(caller.UserID, 10)}
	}
	return &receipt{of: b.strangers, holder: ratelimit.AddressKey(ClientIP(ctx))}
}

// receive reads the whole body, after the credential was accepted and before
// anything else is done, and takes what it holds as it arrives, whatever
// Content-Length promises. Where there is no room for a body, one that is still
// coming gives way, if its sender holds more.
func receive(w http.ResponseWriter, r *http.Request, most int64, hold *receipt) (body []byte, err error) {
	if r.ContentLength > most {
		unread(w)
		return nil, tooLarge(most)
	}
	control := http.NewResponseController(w)
	begin := time.Now()
	extend := func(n int64) { // not every writer of a test has deadlines
		hold.of.unlessEnded(hold, func() {
			_ = control.SetReadDeadline(begin.Add(bodyGrace + time.Duration(n)*time.Second/bodyRate))
		})
	}
	hold.of.begin(hold, func() { _ = control.SetReadDeadline(time.Now()) })
	defer func() {
		if !hold.of.arrived(hold) {
			body, err = nil, crowded(errFull)
		}
	}()
	extend(0)
	for next := int64(bodyRate); ; {
		var further [1]byte // where none may come any more
		room := further[:]
		if int64(len(body)) < most {
			if body, err = enlarge(body, most, hold); err != nil {
				unread(w)
				return nil, err
			}
			room = body[len(body):cap(body)]
		}
		n, err := r.Body.Read(room)
		if int64(len(body)+n) > most {
			unread(w)
			return nil, tooLarge(most)
		}
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			hold.of.unlessEnded(hold, func() { _ = control.SetReadDeadline(time.Time{}) })
			return body, nil
		}
		if err != nil {
			return nil, unreadable(err) // its time is over: nothing more is read
		}
		if int64(len(body)) >= next {
			extend(int64(len(body)))
			next = int64(len(body)) + bodyRate
		}
	}
}

// enlarge makes room in a body that has none, if there is any.
func enlarge(body []byte, most int64, hold *receipt) ([]byte, error) {
	if len(body) < cap(body) {
		return body, nil
	}
	bigger := min(max(512, 2*int64(cap(body))), most)
	if err := hold.grow(bigger - int64(cap(body))); err != nil {
		return nil, crowded(err)
	}
	return append(make([]byte, 0, bigger), body...), nil
}

func crowded(err error) error {
	if errors.Is(err, errShare) {
		return fault.RateLimited(time.Second, "Too many of your requests are still being sent; finish some of them first.")
	}
	return fault.Unavailable(time.Second, "Too many requests are being received; try again.", nil)
}

func tooLarge(most int64) error {
	return &answer{status: http.StatusRequestEntityTooLarge, fault: fault.Invalid("body", "is larger than %s", inWords(most))}
}

func unreadable(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return &answer{status: http.StatusRequestTimeout, fault: fault.Invalid("body", "did not arrive in time")}
	}
	return fault.Invalid("body", "could not be read to its end")
}

func inWords(size int64) string {
	if size >= 1<<20 {
		return fmt.Sprintf("%d MiB", size>>20)
	}
	return fmt.Sprintf("%d KiB", size>>10)
}

const (
	// bodiesDecoded is how many bytes of bodies are decoded at once: decoding
	// makes some twenty times as much of them for a moment.
	bodiesDecoded = 2 << 20
	smallBody     = 4 << 10 // decoded without waiting
)

// mayDecode waits for the turn of a body to be decoded.
func (m *Mux) mayDecode(r *http.Request) (done func(), err error) {
	body, ok := r.Body.(*received)
	if !ok || len(body.all) <= smallBody {
		return func() {}, nil
	}
	s, n, holder := stateFrom(r.Context()), int64(min(len(body.all), bodiesDecoded/2)), body.hold.holder
	ctx, cancel := context.WithTimeout(r.Context(), answerPatience)
	defer cancel()
	if err := m.decode.wait(ctx, holder, n); err != nil {
		return nil, crowded(errFull)
	}
	s.decoded = sync.OnceFunc(func() { m.decode.give(holder, n) })
	return s.decoded, nil
}

// hasDecoded ends what mayDecode began.
func (*Mux) hasDecoded(ctx context.Context) {
	if s := stateFrom(ctx); s != nil && s.decoded != nil {
		s.decoded()
	}
}

// unread bounds how long net/http looks for the end of a body that was not
// wanted, which it does before it sends the answer.
func unread(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadGrace))
}

// received is a body that is in memory.
type received struct {
	io.Reader

	all  []byte
	hold *receipt
}

// Close implements io.Closer.
func (*received) Close() error { return nil }
