package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Registration is what a person says to get an account.
type Registration struct {
	Email              string
	Password           string
	Name               string // optional
	CountryOfResidence string // optional, ISO 3166, two letters
}

// The kinds of requests that are handled in the background.
const (
	kindRegister = "register"
	kindReset    = "reset"
)

// SignUp notes that somebody wants an account for the address and returns the
// address as it is kept. Whether there is one already is found out by a job, so
// that neither the answer nor its time tells: a new address gets a code, a
// taken one a mail that says so. Errors: 5000 naming what is wrong, 5030 for a
// user name that is taken, 5013 over the limits, 5022 while registration is
// closed.
func (s *Service) SignUp(ctx context.Context, r Registration) (string, error) {
	if err := s.registration.admits(); err != nil {
		return "", err
	}
	email, err := NormalizeEmail(r.Email)
	if err != nil {
		return "", err
	}
	if err := CheckNewPassword("password", r.Password); err != nil {
		return "", err
	}
	country, err := normalizeCountry(r.CountryOfResidence)
	if err != nil {
		return "", err
	}
	if r.Name != "" {
		available, err := s.NameAvailable(ctx, r.Name)
		if err != nil {
			return "", err
		}
		if !available {
			return "", fault.Conflict("name: %q is taken by another user", r.Name)
		}
	}
	ask := s.asking(ctx, kindRegister, email, s.limits.RegistrationsPerAccount, s.limits.RegistrationsPerAddress)
	if err := ask.check(ctx, s.db.Reader()); err != nil {
		return "", err
	}
	hash, err := s.passwords.hash(ctx, r.Password, func() error { return ask.check(ctx, s.db.Reader()) })
	if err != nil {
		return "", err
	}
	return email, s.request(ctx, ask, insertAccountRequestParams{Kind: kindRegister, Email: email, Name: r.Name, CountryOfResidence: country, Password: hash})
}

// RequestReset notes that somebody has forgotten the password of the account
// with the address and returns the address as it is kept. A job sends the code
// if there is such an account. Errors: 5000 for what is no address, 5013.
func (s *Service) RequestReset(ctx context.Context, email string) (string, error) {
	email, err := NormalizeEmail(email)
	if err != nil {
		return "", err
	}
	ask := s.asking(ctx, kindReset, email, s.limits.ResetsPerAccount, s.limits.ResetsPerAddress)
	if err := ask.check(ctx, s.db.Reader()); err != nil {
		return "", err
	}
	return email, s.request(ctx, ask, insertAccountRequestParams{Kind: kindReset, Email: email})
}

// request counts the request and leaves it to a job.
func (s *Service) request(ctx context.Context, ask asking, p insertAccountRequestParams) error {
	p.Ip, p.CreatedAt = web.ClientIP(ctx), s.now().UnixMilli()
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := ask.take(ctx, tx); err != nil {
			return err
		}
		id, err := New(tx).insertAccountRequest(ctx, p)
		if err != nil {
			return err
		}
		return s.jobs.Insert(ctx, tx, accountArgs{RequestID: id}, jobs.Options{})
	})
	if err != nil {
		return fmt.Errorf("note a request (%s): %w", p.Kind, err)
	}
	return nil
}

// NameAvailable reports whether a user name is free; 5000 for one that is not
// allowed. Names are public, unlike addresses. A registration reserves none
// before it is confirmed, because that would tell whether its address was new.
func (s *Service) NameAvailable(ctx context.Context, name string) (bool, error) {
	if err := CheckUserName(name); err != nil {
		return false, err
	}
	_, err := New(s.db.Reader()).userIDByName(ctx, name)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up a user name: %w", err)
	}
	return false, nil
}

func normalizeCountry(country string) (string, error) {
	if country == "" {
		return "", nil
	}
	country = strings.ToUpper(country)
	if len(country) != 2 || country[0] < 'A' || country[0] > 'Z' || country[1] < 'A' || country[1] > 'Z' {
		return "", fault.Invalid("country_of_residence", "must be two letters (ISO 3166), for example FR")
	}
	return country, nil
}

// asking counts requests for an account and from an address.
type asking struct {
	limiter                    *ratelimit.Limiter
	account, address           string // buckets
	accountLimit, addressLimit Limit
}

func (s *Service) asking(ctx context.Context, kind, email string, account, address Limit) asking {
	return asking{
		limiter: s.limiter, account: hiddenBucket(kind+".account", email), accountLimit: account,
		address: addressBucket(ctx, kind), addressLimit: address,
	}
}

func addressBucket(ctx context.Context, kind string) string {
	return kind + ".address " + ratelimit.AddressKey(web.ClientIP(ctx))
}

// registrationBucket counts the users that come from an address, by whatever
// door.
func registrationBucket(ctx context.Context) string { return addressBucket(ctx, kindRegister) }

// check refuses when either limit is reached.
func (a asking) check(ctx context.Context, q sqldb.Querier) error {
	if err := a.limiter.CheckIn(ctx, q, a.account, a.accountLimit.Max); err != nil {
		return err
	}
	return a.limiter.CheckIn(ctx, q, a.address, a.addressLimit.Max)
}

// take counts on both; always in this order, so that two transactions cannot
// wait for each other.
func (a asking) take(ctx context.Context, tx sqldb.Querier) error {
	if err := a.limiter.TakeIn(ctx, tx, a.account, a.accountLimit.Max, a.accountLimit.Window); err != nil {
		return err
	}
	return a.limiter.TakeIn(ctx, tx, a.address, a.addressLimit.Max, a.addressLimit.Window)
}

// hiddenBucket hides the address, which may be no account at all.
func hiddenBucket(name, email string) string {
	sum := sha256.Sum256([]byte(email))
	return name + " " + hex.EncodeToString(sum[:16])
}
