package webhooks

import "time"

const (
	firstDelay = 5 * time.Second
	maxDelay   = 8 * time.Hour // also of a Retry-After
	jitter     = 0.1
	// maxRetries follow the first attempt. Their 21 waits add up to about 75
	// hours (decisions.md section 5), so a receiver that is down for three days
	// misses nothing.
	maxRetries = 21
)

// delay is the wait after the attempt of this number, from 1, failed: 5 s
// doubling to 8 h, ±10 %, but no less than the receiver asked for. random is
// in [0, 1).
func delay(attempt int64, asked time.Duration, random float64) time.Duration {
	wait := maxDelay
	if attempt <= 13 { // 5 s × 2^13 is above the cap
		wait = min(firstDelay<<(attempt-1), maxDelay)
	}
	wait += time.Duration((2*random - 1) * jitter * float64(wait))
	return max(wait, min(asked, maxDelay))
}

const (
	disableAfter = 5 * 24 * time.Hour
	// failureGap ends a run of failures: after so long without an attempt (more
	// than the longest wait between two) nothing is known of the receiver.
	failureGap = 24 * time.Hour
)

// health is what is remembered of a webhook's failures, in Unix ms.
type health struct {
	failingSince int64 // 0: not failing
	lastFailure  int64
}

// failed returns the health after a failure at now, and whether the webhook
// has been failing for so long that it is to be disabled.
func (h health) failed(now int64) (after health, giveUp bool) {
	if h.failingSince == 0 || now-h.lastFailure > failureGap.Milliseconds() {
		h.failingSince = now
	}
	h.lastFailure = now
	return h, now-h.failingSince >= disableAfter.Milliseconds()
}
