package issuance

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/sqldb"
)

// authorize learns the challenges of the names that are not valid yet and
// publishes the answers to them.
func (a *attempt) authorize(ctx context.Context) error {
	if a.order.Status == acme.StatusReady {
		return a.ready(ctx)
	}
	authorizations, err := a.client.Authorizations(ctx, a.atCA, a.order)
	if err != nil {
		return err
	}
	var challenges []acme.HTTP01
	for _, authorization := range authorizations {
		if p := authorization.Problem(); p != nil {
			a.dead = true // no order with such an authorization becomes valid
			return p
		}
		if authorization.Status == acme.StatusValid {
			continue
		}
		challenge, err := a.atCA.HTTP01(authorization)
		if err != nil {
			return err
		}
		challenges = append(challenges, challenge)
	}
	a.challenges, a.accepted = challenges, false
	return a.save(ctx, fmt.Sprintf("%d of %d names are to be validated; answers published", len(challenges), len(authorizations)),
		func(r *issuanceRow) { r.Step = stepValidate },
		func(ctx context.Context, tx *sqldb.Tx, next issuanceRow) error {
			if err := a.mayPublish(ctx, tx, challenges); err != nil {
				return err
			}
			for _, c := range challenges {
				err := New(tx).putChallenge(ctx, putChallengeParams{
					Token: c.Token, IssuanceID: next.ID, Name: c.Name, KeyAuthorization: c.KeyAuthorization,
					ChallengeUrl: c.ChallengeURL, AuthorizationUrl: c.AuthorizationURL, Domain: domainOf(c.Name),
				})
				if err != nil {
					return fmt.Errorf("publish challenge of issuance %d: %w", next.ID, err)
				}
			}
			return nil
		})
}

// validate lets the CA look at the answers and waits until the order is ready.
func (a *attempt) validate(ctx context.Context) error {
	if a.challenges == nil {
		if err := a.loadChallenges(ctx); err != nil {
			return err
		}
	}
	tokens := make([]string, len(a.challenges))
	for i, challenge := range a.challenges {
		tokens[i] = challenge.Token
	}
	asked, forget := a.s.expect(a.row.ID, tokens)
	defer forget()
	if !a.accepted {
		for _, challenge := range a.challenges {
			if err := a.client.Accept(ctx, a.atCA, challenge); err != nil {
				return err
			}
		}
		a.accepted = true
	}
	err := a.poll(ctx, acme.StatusPending, func(ctx context.Context, d time.Duration) error {
		if a.order.RetryAfter > 0 {
			return a.s.sleep(ctx, d) // the CA's wish is kept exactly
		}
		return asked.sleep(ctx, d, a.s.sleep)
	})
	if err != nil {
		return err
	}
	return a.ready(ctx)
}

// loadChallenges reads what an earlier run published.
func (a *attempt) loadChallenges(ctx context.Context) error {
	rows, err := New(a.s.DB.Reader()).challengesOf(ctx, a.row.ID)
	if err != nil {
		return fmt.Errorf("read challenges of issuance %d: %w", a.row.ID, err)
	}
	a.challenges = make([]acme.HTTP01, 0, len(rows))
	for _, r := range rows {
		a.challenges = append(a.challenges, acme.HTTP01{
			Name: r.Name, Token: r.Token, KeyAuthorization: r.KeyAuthorization,
			ChallengeURL: r.ChallengeUrl, AuthorizationURL: r.AuthorizationUrl,
		})
	}
	return nil
}

// ready records that the order may be finalised, before it is, and whose the
// names are from now on.
func (a *attempt) ready(ctx context.Context) error {
	return a.save(ctx, "all names are validated", func(r *issuanceRow) { r.Step = stepFinalize },
		func(ctx context.Context, tx *sqldb.Tx, _ issuanceRow) error { return a.claimNames(ctx, tx) })
}
