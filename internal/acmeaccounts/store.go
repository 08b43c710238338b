package acmeaccounts

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

func fromRow(r AcmeAccount) Account {
	a := Account{
		ID: r.ID, UserID: r.UserID, Name: r.Name, Email: r.Email, Provider: r.Provider, DirectoryURL: r.DirectoryUrl,
		CABundlePEM: r.CaBundlePem, EABKeyID: r.EabKid, AccountURL: r.AccountUrl, Status: StatusNew,
		LeafKeyAlgorithm: r.LeafKeyAlgorithm, LeafRSABits: r.LeafRsaBits, LeafECCurve: r.LeafEcCurve,
		CertValidSeconds: r.CertValidSeconds, Profile: r.Profile, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		sealedKey: r.AccountKey, sealedEAB: r.EabHmacKey,
	}
	if r.CaID > 0 {
		a.CAID = &r.CaID
	}
	if r.AccountUrl != "" {
		a.Status = StatusRegistered
	}
	return a
}

func (a *Account) caID() int64 {
	if a.CAID == nil {
		return 0
	}
	return *a.CAID
}

func load(ctx context.Context, q sqldb.Querier, userID, id int64) (Account, error) {
	row, err := New(q).accountByID(ctx, accountByIDParams{UserID: userID, ID: id})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return Account{}, fault.NotFound("acme account")
	}
	if err != nil {
		return Account{}, fmt.Errorf("load ACME account: %w", err)
	}
	return fromRow(row), nil
}

// lock is load for a transaction that changes the account: every member is
// written, so that of two which change it at once the second must see what the
// first has written.
func lock(ctx context.Context, tx *sqldb.Tx, userID, id int64) (Account, error) {
	if _, err := tx.ExecContext(ctx, "SELECT id FROM acme_accounts WHERE id = $1"+tx.Dialect().ForUpdate(), id); err != nil {
		return Account{}, fmt.Errorf("lock ACME account: %w", err)
	}
	return load(ctx, tx, userID, id)
}

// Count tells how many accounts the user has.
func (s *Service) Count(ctx context.Context, q sqldb.Querier, userID int64) (int64, error) {
	n, err := New(q).countAccounts(ctx, userID)
	if err != nil {
		return 0, fmt.Errorf("count ACME accounts: %w", err)
	}
	return n, nil
}

func insert(ctx context.Context, q sqldb.Querier, a *Account) error {
	id, err := New(q).insertAccount(ctx, insertAccountParams{
		UserID: a.UserID, Name: a.Name, Email: a.Email, Provider: a.Provider, DirectoryUrl: a.DirectoryURL,
		CaBundlePem: a.CABundlePEM, CaID: a.caID(), EabKid: a.EABKeyID, LeafKeyAlgorithm: a.LeafKeyAlgorithm,
		LeafRsaBits: a.LeafRSABits, LeafEcCurve: a.LeafECCurve, CertValidSeconds: a.CertValidSeconds,
		Profile: a.Profile, CreatedAt: a.CreatedAt,
	})
	if err != nil {
		return fmt.Errorf("insert ACME account: %w", err)
	}
	a.ID = id
	return nil
}

func update(ctx context.Context, q sqldb.Querier, a *Account) error {
	err := New(q).updateAccount(ctx, updateAccountParams{
		ID: a.ID, Name: a.Name, Email: a.Email, Provider: a.Provider, DirectoryUrl: a.DirectoryURL, CaBundlePem: a.CABundlePEM,
		CaID: a.caID(), EabKid: a.EABKeyID, AccountUrl: a.AccountURL, LeafKeyAlgorithm: a.LeafKeyAlgorithm,
		LeafRsaBits: a.LeafRSABits, LeafEcCurve: a.LeafECCurve, CertValidSeconds: a.CertValidSeconds, Profile: a.Profile, UpdatedAt: a.UpdatedAt,
	})
	if err != nil {
		return fmt.Errorf("update ACME account: %w", err)
	}
	return nil
}
