package acme_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"certharbor.dev/certharbor/internal/acme"
)

func TestWaitKeepsRetryAfterElseGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		wishes := []time.Duration{0, 0, 3 * time.Second, 0}
		var at []time.Duration
		err := acme.Waiter{}.Wait(t.Context(), 2*time.Second, func(context.Context) (bool, time.Duration, error) {
			at = append(at, time.Since(start))
			if len(at) > len(wishes) {
				return true, 0, nil
			}
			return false, wishes[len(at)-1], nil
		})
		ms := time.Millisecond
		want := []time.Duration{2000 * ms, 2020 * ms, 2050 * ms, 5050 * ms, 5095 * ms}
		if err != nil || !slices.Equal(at, want) {
			t.Errorf("looked at %v, want %v; error %v", at, want, err)
		}
	})
}

func TestWaitGrowsToASecondAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var last, longest time.Duration
		start := time.Now()
		err := acme.Waiter{}.Wait(ctx, 0, func(context.Context) (bool, time.Duration, error) {
			now := time.Since(start)
			longest, last = max(longest, now-last), now
			return false, 0, nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || longest != time.Second || time.Since(start) != time.Minute {
			t.Errorf("error %v after %v, longest wait %v", err, time.Since(start), longest)
		}
	})
}

func TestWaitGivesUpAWorkerForALongWish(t *testing.T) {
	var slept []time.Duration
	w := acme.Waiter{Patience: 10 * time.Second, Sleep: func(_ context.Context, d time.Duration) error {
		slept = append(slept, d)
		return nil
	}}
	err := w.Wait(t.Context(), 10*time.Second, func(context.Context) (bool, time.Duration, error) {
		return false, 11 * time.Second, nil
	})
	later, ok := errors.AsType[*acme.Later](err)
	if !ok || later.After != 11*time.Second || !slices.Equal(slept, []time.Duration{10 * time.Second}) {
		t.Errorf("error %v, slept %v", err, slept)
	}
	failed := errors.New("failed")
	err = w.Wait(t.Context(), 0, func(context.Context) (bool, time.Duration, error) { return false, 0, failed })
	if err != failed { //nolint:errorlint // it must come back as it is
		t.Errorf("error %v", err)
	}
}
