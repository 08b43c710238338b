package outbound

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ReadLimited reads body to its end, at most limit bytes. A longer body gives
// an error wrapping ErrTooLarge and no bytes. It does not close body.
func ReadLimited(body io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read answer: %w: more than %d bytes", ErrTooLarge, limit)
	}
	return data, nil
}

// RetryAfter reads the Retry-After header of an answer (RFC 9110 section
// 10.2.3), whole seconds or a date, as a duration from now. It is zero when
// the header is absent, malformed or in the past, and at most limit.
func RetryAfter(header http.Header, now time.Time, limit time.Duration) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	var wait time.Duration
	if value[0] >= '0' && value[0] <= '9' {
		seconds, err := strconv.ParseUint(value, 10, 64)
		switch {
		case err == nil && seconds <= uint64(limit/time.Second):
			wait = time.Duration(seconds) * time.Second
		case strings.Trim(value, "0123456789") == "":
			wait = limit // more seconds than fit is still a wish for the longest wait
		}
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), limit)
}
