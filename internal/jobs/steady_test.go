package jobs_test

import (
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// A sweep may delete while the time passes as it should, and again when a clock
// that leapt ahead has stayed there for a day, or came back.
func TestSteady(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		now := time.UnixMilli(1_700_000_000_000)
		for i, step := range []struct {
			by     time.Duration
			steady bool
		}{
			{0, true},
			{time.Hour, true},
			{25 * time.Hour, true},        // a day of rest
			{400 * 24 * time.Hour, false}, // somebody set the clock
			{time.Hour, false},            //
			{-400 * 24 * time.Hour, true}, // and set it right
			{time.Hour, true},             //
			{26 * time.Hour, false},       // nothing ran for a while
			{time.Hour, false},            //
			{22 * time.Hour, false},       //
			{time.Hour, true},             // it was no mistake
			{time.Hour, true},             //
			{-30 * 24 * time.Hour, true},  //
			{30 * 24 * time.Hour, false},  //
			{365 * 24 * time.Hour, false}, // and ahead once more
			{23*time.Hour + 59*time.Minute, false},
			{time.Minute, true},
		} {
			now = now.Add(step.by)
			for _, name := range []string{"a.sweep", "b.sweep"} { // each by itself
				err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
					steady, err := jobs.Steady(t.Context(), tx, name, now)
					if steady != step.steady {
						t.Errorf("step %d, %s: %v, want %v", i, name, steady, step.steady)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
