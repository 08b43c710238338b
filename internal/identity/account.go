package identity

import (
	"context"
	"fmt"
	"strings"

	"certharbor.dev/certharbor/internal/access"
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
	account := accountKey(email, "")
	hits := []ratelimit.Hit{
		s.limits.RegistrationsPerAccount.hit(ratelimit.RegistrationsAtAddress, account+" "+addressKey(ctx)),
		s.limits.RegistrationsPerAccountTotal.hit(ratelimit.RegistrationsOfAccount, s.slot(account)),
		s.limits.RegistrationsPerAddress.hit(ratelimit.RegistrationsFromAddress, addressKey(ctx)),
	}
	if err := s.limiter.Peek(ctx, hits...); err != nil {
		return "", err
	}
	hash, err := s.passwords.hash(ctx, r.Password, func() error { return s.limiter.Peek(ctx, hits...) })
	if err != nil {
		return "", err
	}
	return email, s.request(ctx, hits, insertAccountRequestParams{Kind: kindRegister, Email: email, Name: r.Name, CountryOfResidence: country, Password: hash})
}

// RequestReset notes that a person has forgotten the password of the account
// with the address and returns the address as it is kept. A job sends the code
// if there is such an account. A browser that has signed in to the account
// before, or is signed in, has a limit of its own, which no stranger uses up.
// Errors: 5000 for what is no address, 5013.
func (s *Service) RequestReset(ctx context.Context, email string) (string, error) {
	email, err := NormalizeEmail(email)
	if err != nil {
		return "", err
	}
	known, err := s.knownTo(ctx, email)
	if err != nil {
		return "", err
	}
	account := accountKey(email, "")
	hits := []ratelimit.Hit{
		s.limits.ResetsPerAccount.hit(ratelimit.ResetsAtAddress, account+" "+addressKey(ctx)),
		s.limits.ResetsPerAccountTotal.hit(ratelimit.ResetsOfAccount, s.slot(account)),
		s.limits.ResetsPerAddress.hit(ratelimit.ResetsFromAddress, addressKey(ctx)),
	}
	if known != "" {
		hits = []ratelimit.Hit{s.limits.ResetsPerAccount.hit(ratelimit.ResetsFromKnown, known)}
	}
	return email, s.request(ctx, hits, insertAccountRequestParams{Kind: kindReset, Email: email})
}

// knownTo names the browser, or the session, that is known to the account with
// the address, or is "".
func (s *Service) knownTo(ctx context.Context, email string) (string, error) {
	row, err := New(s.db.Reader()).userByEmail(ctx, email)
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return "", fmt.Errorf("look up a user: %w", err)
	}
	if c := access.From(ctx); c != nil && c.Kind == access.KindSession && row.ID != 0 && c.UserID == row.ID {
		return "session of " + accountKey(email, row.Password), nil
	}
	return s.knownBrowser(ctx, row.ID, row.Password), nil
}

// request counts the request and leaves it to a job.
func (s *Service) request(ctx context.Context, hits []ratelimit.Hit, p insertAccountRequestParams) error {
	if err := s.limiter.Peek(ctx, hits...); err != nil { // costs no write
		return err
	}
	p.Ip, p.CreatedAt = web.ClientIP(ctx), s.now().UnixMilli()
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.limiter.CountIn(ctx, tx, hits...); err != nil {
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
