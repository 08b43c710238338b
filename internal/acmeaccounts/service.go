package acmeaccounts

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// CAs tells whether a user has a certificate authority of their own.
type CAs interface {
	// Exists returns a fault when the user has no such CA.
	Exists(ctx context.Context, q sqldb.Querier, userID, caID int64) error
}

// StepUp tells whether a person has proved recently enough who they are.
type StepUp interface {
	// RequireStepUp refuses (5034) the caller of ctx who must prove it afresh;
	// API keys pass.
	RequireStepUp(ctx context.Context, q sqldb.Querier) error
}

// Deps are what the Service needs. CAs may be nil: then there are none; StepUp
// too: then it is not asked.
type Deps struct {
	DB     *sqldb.DB
	Audit  *audit.Log
	Keys   *seal.Keyring
	ACME   *acme.Pool
	CAs    CAs
	StepUp StepUp
	Now    func() time.Time
	// Quota refuses a user who has too many accounts. Nil: nobody has.
	Quota func(ctx context.Context, tx *sqldb.Tx, userID int64) error
	// Limiter bounds how often a user registers accounts. Nil: nothing does.
	Limiter *ratelimit.Limiter
}

// Service holds the rules of ACME accounts.
type Service struct{ Deps }

// NewService returns the service.
func NewService(d Deps) *Service { return &Service{d} }

const table = "acme_accounts"

// fresh refuses a person who brings an EAB key, which ties the account to what
// it pays for at its CA, without a fresh proof.
func (s *Service) fresh(ctx context.Context, f *Fields) error {
	given := func(text *string) bool { return text != nil && *text != "" }
	if s.StepUp == nil || access.From(ctx) == nil || !given(f.EABKeyID) && !given(f.EABHMACKey) {
		return nil
	}
	return s.StepUp.RequireStepUp(ctx, s.DB.Reader())
}

// Get returns the user's account, or a fault when there is none.
func (s *Service) Get(ctx context.Context, q sqldb.Querier, userID, id int64) (Account, error) {
	return load(ctx, q, userID, id)
}

func (s *Service) list(ctx context.Context, userID int64, page web.Page) ([]Account, int64, error) {
	q := New(s.DB.Reader())
	total, err := q.countAccounts(ctx, userID)
	if err != nil {
		return nil, 0, fmt.Errorf("count ACME accounts: %w", err)
	}
	const step = 10 // each may have a CA bundle
	rows, _, err := web.Fill(page, step, func(r *AcmeAccount) int { return 1000 + len(r.CaBundlePem) }, func(most, skip int64) ([]AcmeAccount, error) {
		return q.accountsOf(ctx, accountsOfParams{UserID: userID, Max: most, Skip: skip})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list ACME accounts: %w", err)
	}
	accounts := make([]Account, 0, len(rows))
	for _, row := range rows {
		accounts = append(accounts, fromRow(row))
	}
	return accounts, total, nil
}

// named returns those of the accounts that exist, newest first, for a key that
// is granted these alone.
func (s *Service) named(ctx context.Context, userID int64, ids []int64) ([]Account, error) {
	var accounts []Account
	for _, id := range slices.Backward(slices.Compact(slices.Sorted(slices.Values(ids)))) {
		a, err := load(ctx, s.DB.Reader(), userID, id)
		if fault.Is(err, fault.CodeNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, a)
	}
	return accounts, nil
}

func (s *Service) create(ctx context.Context, userID int64, f *Fields) (Account, error) {
	if err := s.fresh(ctx, f); err != nil {
		return Account{}, err
	}
	now := s.Now().UnixMilli()
	a := Account{UserID: userID, Status: StatusNew, CreatedAt: now, UpdatedAt: now}
	if err := s.apply(ctx, &a, f); err != nil {
		return Account{}, err
	}
	key, err := acme.GenerateKey()
	if err != nil {
		return Account{}, err
	}
	der, err := acme.MarshalKey(key)
	if err != nil {
		return Account{}, err
	}
	defer clear(der)
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if s.Quota != nil {
			if err := s.Quota(ctx, tx, userID); err != nil {
				return err
			}
		}
		if err := insert(ctx, tx, &a); err != nil {
			return err
		}
		if a.sealedKey, err = s.Keys.Seal(seal.Place{Table: table, Row: a.ID, Column: "account_key"}, der); err != nil {
			return fmt.Errorf("seal account key: %w", err)
		}
		if err := s.sealEAB(&a, f.EABHMACKey); err != nil {
			return err
		}
		if err := New(tx).setSecrets(ctx, setSecretsParams{ID: a.ID, AccountKey: a.sealedKey, EabHmacKey: a.sealedEAB}); err != nil {
			return fmt.Errorf("store sealed account key: %w", err)
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: userID, Action: "acme_account.create", Object: object(a.ID)})
	})
	return a, err
}

func (s *Service) update(ctx context.Context, userID, id int64, f *Fields) (Account, error) {
	if err := s.fresh(ctx, f); err != nil {
		return Account{}, err
	}
	var a Account
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
		if a, err = lock(ctx, tx, userID, id); err != nil {
			return err
		}
		if err := s.apply(ctx, &a, f); err != nil {
			return err
		}
		a.UpdatedAt = s.Now().UnixMilli()
		if err := s.sealEAB(&a, f.EABHMACKey); err != nil {
			return err
		}
		if err := update(ctx, tx, &a); err != nil {
			return err
		}
		if err := New(tx).setSecrets(ctx, setSecretsParams{ID: a.ID, AccountKey: a.sealedKey, EabHmacKey: a.sealedEAB}); err != nil {
			return fmt.Errorf("store sealed EAB key: %w", err)
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: userID, Action: "acme_account.update", Object: object(a.ID)})
	})
	return a, err
}

func (s *Service) apply(ctx context.Context, a *Account, f *Fields) error {
	if err := a.apply(f); err != nil {
		return err
	}
	if key := f.EABHMACKey; key != nil && *key != "" {
		if _, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(*key, "=")); err != nil || a.EABKeyID == "" {
			return fault.Invalid("eab_hmac_key", "must be base64url and stand beside eab_kid")
		}
	}
	if a.OwnCA() {
		if s.CAs == nil {
			return fault.Invalid("ca_id", "names no certificate authority of yours")
		}
		return s.CAs.Exists(ctx, s.DB.Reader(), a.UserID, *a.CAID)
	}
	if _, err := s.ACME.Client(acme.Directory{URL: a.DirectoryURL, RootCAs: a.CABundlePEM}); err != nil {
		return fault.Invalid("ca_bundle_pem", "%s", acme.AsProblem(err).Detail)
	}
	return nil
}

func (s *Service) sealEAB(a *Account, key *string) (err error) {
	switch {
	case key == nil:
	case *key == "":
		a.sealedEAB = nil
	default:
		if a.sealedEAB, err = s.Keys.Seal(seal.Place{Table: table, Row: a.ID, Column: "eab_hmac_key"}, []byte(*key)); err != nil {
			return fmt.Errorf("seal EAB key: %w", err)
		}
	}
	return nil
}

// remove deletes the account. The CA keeps its half: a key that is gone cannot
// sign anything more.
func (s *Service) remove(ctx context.Context, userID, id int64) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		n, err := New(tx).deleteAccount(ctx, deleteAccountParams{UserID: userID, ID: id})
		if sqldb.Is(err, sqldb.ErrForeignKey) {
			return fault.Conflict("The account is used by certificates; move or delete these first.")
		}
		if err != nil {
			return fmt.Errorf("delete ACME account: %w", err)
		}
		if n == 0 {
			return fault.NotFound("acme account")
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: userID, Action: "acme_account.delete", Object: object(id)})
	})
}

func object(id int64) string { return fmt.Sprintf("acme account %d", id) }

var errNoKey = errors.New("the account has no key")
