package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// permanent marks an error that waiting does not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// eventually calls probe until it succeeds, fails for good or ctx is done, and returns its last
// answer. Between calls it waits a little longer each time, 100 ms at most.
func eventually[T any](ctx context.Context, probe func() (T, error)) (T, error) {
	for wait := 5 * time.Millisecond; ; wait = min(wait*3/2, 100*time.Millisecond) {
		value, err := probe()
		if err == nil || errors.As(err, new(permanent)) {
			return value, err
		}
		select {
		case <-ctx.Done():
			return value, fmt.Errorf("the time is over: %w", err)
		case <-time.After(wait):
		}
	}
}
