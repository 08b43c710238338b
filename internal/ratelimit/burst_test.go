package ratelimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// way is how a limit is counted.
type way string

const (
	look way = "spent before a secret is looked at"
	act  way = "counted in the transaction that acts"
)

// ways has a row for every limit of the server.
var ways = map[ratelimit.Rule]way{
	ratelimit.PasswordsAtAddress: look, ratelimit.PasswordsOfAccount: look, ratelimit.PasswordsFromAddress: look, ratelimit.PasswordsFromKnown: look,
	ratelimit.CodesFromAddress: look, ratelimit.DeviceCodesFromAddress: look, ratelimit.DeviceStartsFromAddress: look,
	ratelimit.RefreshesAgain: act, ratelimit.RegistrationsAtAddress: act, ratelimit.RegistrationsOfAccount: act, ratelimit.RegistrationsFromAddress: act,
	ratelimit.ResetsAtAddress: act, ratelimit.ResetsOfAccount: act, ratelimit.ResetsFromAddress: act, ratelimit.ResetsFromKnown: act,
	ratelimit.ApprovalLetters: act, ratelimit.ChallengesFromAddress: act, ratelimit.ChallengesOfUser: act,
	ratelimit.AttemptsFromAddress: act, ratelimit.AttemptsOfUser: act, ratelimit.NameChecksOfUser: act, ratelimit.KeysOfDevice: act, ratelimit.FailuresOfDevice: act,
	ratelimit.IssuesOfUser: act, ratelimit.WebhookTriesOfUser: act, ratelimit.RegistersOfUser: act, ratelimit.NewAccountsOfUser: act,
}

// TestEveryLimitHoldsInABurst releases many attempts at once at every limit of
// the server, from two nodes: no more get through than are allowed, and what was
// spent stays spent.
func TestEveryLimitHoldsInABurst(t *testing.T) {
	t.Parallel()
	const limit, burst = 5, 250
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		now := newClock().now
		nodes := []*ratelimit.Limiter{ratelimit.NewLimiter(db, now), ratelimit.NewLimiter(db, now)}
		for _, rule := range ratelimit.Rules() {
			hit := ratelimit.Hit{Rule: rule, Key: "somebody", Max: limit, Window: time.Hour}
			var through atomic.Int64
			var group sync.WaitGroup
			release := make(chan struct{})
			for i := range burst {
				group.Go(func() {
					<-release
					switch err := attempt(t.Context(), db, nodes[i%2], ways[rule], hit, &through); {
					case err == nil, fault.Is(err, fault.CodeRateLimited):
					default:
						t.Errorf("%s: %v", rule, err)
					}
				})
			}
			close(release)
			group.Wait()
			if through.Load() != limit {
				t.Errorf("%s: %d of %d got through, %d are allowed", rule, through.Load(), burst, limit)
			}
			if err := nodes[0].Peek(t.Context(), hit); !fault.Is(err, fault.CodeRateLimited) {
				t.Errorf("%s: a refusal gave a hit back: %v", rule, err)
			}
		}
	})
}

func attempt(ctx context.Context, db *sqldb.DB, l *ratelimit.Limiter, how way, hit ratelimit.Hit, through *atomic.Int64) error {
	if how == act {
		err := db.InTx(ctx, func(tx *sqldb.Tx) error { return l.CountIn(ctx, tx, hit) })
		if err == nil {
			through.Add(1)
		}
		return err
	}
	if how != look {
		return context.Canceled // a limit without a row
	}
	spent, err := l.Spend(ctx, nil, hit)
	if err == nil {
		through.Add(1)
		spent.Settle()
	}
	return err
}
