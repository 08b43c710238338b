package issuance

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Withdraw takes back the answers in the registrable domain of users who may
// not order the names any more: from then on no node gives them.
func (s *Service) Withdraw(ctx context.Context, tx *sqldb.Tx, domain string) error {
	rows, err := New(tx).answersIn(ctx, domain)
	if err != nil {
		return fmt.Errorf("find answers in a domain: %w", err)
	}
	for _, row := range rows {
		err := s.Names.Check(ctx, tx, names.Order{UserID: row.UserID, Names: []string{domainName(row.Name)}, Existing: true})
		if err == nil {
			continue
		}
		if !names.Refused(err) {
			return err
		}
		if err := New(tx).dropAnswer(ctx, dropAnswerParams{Token: row.Token, IssuanceID: row.IssuanceID}); err != nil {
			return fmt.Errorf("withdraw an answer: %w", err)
		}
	}
	return nil
}

// pastBatch is how many old attempts are read at once.
const pastBatch = 1000

// Past calls each with every certificate that was issued by a public authority,
// in the order in which the attempts began.
func (s *Service) Past(ctx context.Context, each func(names.Success)) error {
	directories := map[int64]string{}
	for after := int64(0); ; {
		rows, err := New(s.DB.Reader()).successes(ctx, successesParams{After: after, Max: pastBatch})
		if err != nil {
			return fmt.Errorf("read past successes: %w", err)
		}
		for _, row := range rows {
			after = row.ID
			directory, known := directories[row.AcctID]
			if !known {
				account, err := s.Accounts.Get(ctx, s.DB.Reader(), row.UserID, row.AcctID)
				if err != nil && !fault.Is(err, fault.CodeNotFound) {
					return err
				}
				if err == nil && !account.OwnCA() {
					directory = account.DirectoryURL
				}
				directories[row.AcctID] = directory
			}
			if directory != "" {
				each(names.Success{UserID: row.UserID, Names: decodeNames(row.Names), Directory: directory, BuiltIn: acmeaccounts.BuiltIn(directory)})
			}
		}
		if len(rows) < pastBatch {
			return nil
		}
	}
}
