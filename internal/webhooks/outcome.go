package webhooks

import (
	"fmt"
	"net/http"
	"time"

	"certharbor.dev/certharbor/internal/outbound"
)

// The states of a delivery.
const (
	StatusPending   = "PENDING"
	StatusSuccess   = "SUCCESS"
	StatusPermanent = "PERMANENT_FAILURE"
	StatusExhausted = "EXHAUSTED"
)

// The reasons in disabled_reason.
const (
	reasonGone    = "The receiver answered 410 Gone: it wants no more deliveries."
	reasonFailing = "Every attempt has failed for 5 days."
)

// result is what came of one attempt.
type result struct {
	delivery delivery
	code     int64         // HTTP status, 0: no answer
	err      string        // a fixed sentence, "" for a 2xx
	asked    time.Duration // Retry-After
	at       int64         // when the attempt ended, Unix ms
}

// answered makes the result of an HTTP answer.
func answered(d delivery, resp *http.Response, now time.Time) result {
	r := result{delivery: d, code: int64(resp.StatusCode), at: now.UnixMilli()}
	if r.status() != StatusSuccess {
		r.err = fmt.Sprintf("the receiver answered with status %d", resp.StatusCode)
		r.asked = outbound.RetryAfter(resp.Header, now, maxDelay)
	}
	return r
}

// unanswered makes the result of a call without an answer.
func unanswered(d delivery, err error, now time.Time) result {
	return result{delivery: d, err: outbound.Public(err), at: now.UnixMilli()}
}

// status classifies the attempt (api.md "Delivery rules"). A call without an
// answer is worth another try. A test is tried once.
func (r result) status() string {
	switch {
	case r.code >= 200 && r.code <= 299:
		return StatusSuccess
	case r.code != 0 && r.code != http.StatusRequestTimeout && r.code != http.StatusTooManyRequests && r.code < 500:
		return StatusPermanent
	case r.delivery.Event == EventTest || r.delivery.Attempts >= maxRetries:
		return StatusExhausted
	}
	return StatusPending
}

// gone reports whether the receiver wants nothing more.
func (r result) gone() bool { return r.code == http.StatusGone }
