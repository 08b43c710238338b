package acmeaccounts

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Client returns the client of the account's CA and the account as the CA
// knows it. Its URL is empty until Register succeeded.
func (s *Service) Client(a *Account) (*acme.Client, acme.Account, error) {
	client, err := s.ACME.Client(acme.Directory{URL: a.DirectoryURL, RootCAs: a.CABundlePEM})
	if err != nil {
		return nil, acme.Account{}, err
	}
	if len(a.sealedKey) == 0 {
		return nil, acme.Account{}, errNoKey
	}
	der, err := s.Keys.Open(seal.Place{Table: table, Row: a.ID, Column: "account_key"}, a.sealedKey)
	if err != nil {
		return nil, acme.Account{}, fmt.Errorf("open account key: %w", err)
	}
	defer clear(der)
	key, err := acme.ParseKey(der)
	if err != nil {
		return nil, acme.Account{}, err
	}
	return client, acme.Account{URL: a.AccountURL, Key: key}, nil
}

const (
	// maxRegisters bounds how often a user has an account registered by hand in
	// an hour: each fetches a directory of the user's choice.
	maxRegisters = 60
	// maxNewAccounts a user makes at a public authority in newAccountsTime. They
	// count new accounts by this server's address, ten in three hours.
	maxNewAccounts  = 2
	newAccountsTime = 3 * time.Hour
)

// mayRegister refuses a user (5013) who makes more accounts at a public
// authority than is their share. One that the authority knows counts as well:
// only the authority can tell.
func (s *Service) mayRegister(ctx context.Context, a *Account) error {
	if a.AccountURL != "" || a.Provider == ProviderCustom {
		return nil
	}
	return s.count(ctx, ratelimit.Hit{
		Rule: ratelimit.NewAccountsOfUser, Key: fmt.Sprintf("%d %s", a.UserID, a.Provider), Max: maxNewAccounts, Window: newAccountsTime,
	})
}

// count counts a call of an authority before it is made.
func (s *Service) count(ctx context.Context, hit ratelimit.Hit) error {
	if s.Limiter == nil {
		return nil
	}
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error { return s.Limiter.CountIn(ctx, tx, hit) })
}

// Register makes the account at its CA, or finds the one that exists for its
// key, and saves its URL. It may be repeated. A refusal of the CA is an
// *acme.Problem. It calls the CA: never call it inside a transaction.
func (s *Service) Register(ctx context.Context, a *Account) error {
	client, account, err := s.Client(a)
	if err != nil {
		return err
	}
	if err := s.mayRegister(ctx, a); err != nil {
		return err
	}
	registration := acme.Registration{Key: account.Key, TermsAgreed: true}
	if a.Email != "" {
		registration.Contacts = []string{a.Email}
	}
	if a.EABKeyID != "" && a.sealedEAB != nil {
		hmac, err := s.Keys.Open(seal.Place{Table: table, Row: a.ID, Column: "eab_hmac_key"}, a.sealedEAB)
		if err != nil {
			return fmt.Errorf("open EAB key: %w", err)
		}
		registration.EAB = &acme.EAB{KeyID: a.EABKeyID, HMACKey: string(hmac)}
	}
	registered, err := client.Register(ctx, registration)
	if err != nil {
		return err
	}
	now := s.Now().UnixMilli()
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		err := New(tx).setAccountURL(ctx, setAccountURLParams{ID: a.ID, AccountUrl: registered.URL, UpdatedAt: now, DirectoryUrl: a.DirectoryURL})
		if err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: a.UserID, Action: "acme_account.register", Object: object(a.ID)})
	})
	if err != nil {
		return fmt.Errorf("save account URL: %w", err)
	}
	a.AccountURL, a.Status, a.UpdatedAt = registered.URL, StatusRegistered, now
	return nil
}

// Forget makes the account NEW again after the CA said that it does not know
// it, so that the next order registers it.
func (s *Service) Forget(ctx context.Context, a *Account) error {
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		return New(tx).setAccountURL(ctx, setAccountURLParams{ID: a.ID, AccountUrl: "", UpdatedAt: s.Now().UnixMilli(), DirectoryUrl: a.DirectoryURL})
	})
	if err != nil {
		return fmt.Errorf("forget account URL: %w", err)
	}
	a.AccountURL, a.Status = "", StatusNew
	return nil
}

func (s *Service) register(ctx context.Context, userID, id int64) (Account, error) {
	a, err := load(ctx, s.DB.Reader(), userID, id)
	if err != nil {
		return Account{}, err
	}
	if a.OwnCA() {
		return a, nil // nothing to register
	}
	err = s.count(ctx, ratelimit.Hit{Rule: ratelimit.RegistersOfUser, Key: strconv.FormatInt(userID, 10), Max: maxRegisters, Window: time.Hour})
	if err != nil {
		return Account{}, err
	}
	if err := s.Register(ctx, &a); err != nil {
		if problem := acme.AsProblem(err); problem.Type != "" || problem.Op != "" {
			return Account{}, fault.Conflict("The CA did not register the account: %s", problem.Error()).Because(err)
		}
		return Account{}, err
	}
	return a, nil
}
