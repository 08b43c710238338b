package issuance

import (
	"context"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/sqldb"
)

// wants is the attempt's order as the rules about names look at it.
func (a *attempt) wants(ctx context.Context, q sqldb.Querier) (names.Order, error) {
	cert, err := a.s.Certs.Record(ctx, q, a.row.UserID, a.row.CertID)
	if err != nil {
		return names.Order{}, err
	}
	o := cert.Order()
	o.Names = decodeNames(a.row.Names) // as they were ordered
	return o, nil
}

// mayPublish asks whether the user may still have all names, those included
// that the authority says it validates, before this server answers for them.
func (a *attempt) mayPublish(ctx context.Context, tx *sqldb.Tx, challenges []acme.HTTP01) error {
	o, err := a.wants(ctx, tx)
	if err != nil {
		return err
	}
	for _, c := range challenges {
		name, problem := names.Normal(c.Name)
		if problem != "" || !slices.Contains(o.Names, name) {
			return fault.Invalid("identifier", "the CA wants to validate %.100q, which was not ordered", c.Name)
		}
	}
	return a.s.Names.MayOrder(ctx, tx, o)
}

// claimNames asks once more and makes the names the user's while the attempt
// lasts. What stands among the published answers was validated for this order.
func (a *attempt) claimNames(ctx context.Context, tx *sqldb.Tx) error {
	o, err := a.wants(ctx, tx)
	if err != nil {
		return err
	}
	rows, err := New(tx).challengesOf(ctx, a.row.ID)
	if err != nil {
		return fmt.Errorf("read challenges of issuance %d: %w", a.row.ID, err)
	}
	attempt := names.Attempt{Order: o, IssuanceID: a.row.ID}
	// The account may have moved since the order was placed: only the CA that
	// validates vouches for a name.
	if acme.SameOrigin(a.row.OrderUrl, a.account.DirectoryURL) {
		attempt.Directory, attempt.BuiltIn = a.account.DirectoryURL, acmeaccounts.BuiltIn(a.account.DirectoryURL)
	}
	for _, row := range rows {
		attempt.Validated = append(attempt.Validated, domainName(row.Name))
	}
	return a.s.Names.Finalize(ctx, tx, attempt)
}

func domainName(name string) string {
	normal, _ := names.Normal(name)
	return normal
}

// domainOf is what an answer is found by when a name changes hands.
func domainOf(name string) string {
	domain, _ := names.Domain(domainName(name))
	return domain
}
