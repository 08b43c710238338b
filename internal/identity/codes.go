package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/big"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Codes are 6 digits, live 15 minutes and bear 5 tries from where they were asked
// for, or from a browser that the account knows. From elsewhere they bear 2 more,
// lest a stranger's guesses use them up for the person who reads the mail.
const (
	codeDigits         = 6
	codeLifetime       = 15 * time.Minute
	codeTries          = 5
	codeTriesElsewhere = 2
)

// What a code is good for.
const (
	purposeActivate = "activate"
	purposeReset    = "reset"
)

// errCode is the one refusal of a code: wrong, expired, used up, or of an
// address without an account.
var errCode = fault.Invalid("verify_code", "is wrong or has expired; ask for a new one")

// newCode makes the code of 6 digits.
func newCode() (string, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return "", fmt.Errorf("make a code: %w", err)
	}
	return fmt.Sprintf("%0*d", codeDigits, n), nil
}

func checkCode(code string) error {
	if len(code) != codeDigits {
		return fault.Invalid("verify_code", "must be the 6 digits of the mail")
	}
	for _, digit := range code {
		if digit < '0' || digit > '9' {
			return fault.Invalid("verify_code", "must be the 6 digits of the mail")
		}
	}
	return nil
}

// hashCode gives what is stored of a code.
func hashCode(key []byte, purpose, email, code string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{purpose, email, code} {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return mac.Sum(nil)
}

// storeCode makes a code for the address and keeps its hash and the
// registration that it belongs to, if any.
func (s *Service) storeCode(ctx context.Context, tx *sqldb.Tx, purpose string, r takeAccountRequestRow) (string, error) {
	now := s.now()
	key, err := s.codeKeys.get(ctx, now.UnixMilli())
	if err != nil {
		return "", err
	}
	code, err := newCode()
	if err != nil {
		return "", err
	}
	err = New(tx).insertCode(ctx, insertCodeParams{
		Email: r.Email, Purpose: purpose, CodeHash: hashCode(key, purpose, r.Email, code), AskedFrom: ratelimit.AddressKey(r.Ip), Name: r.Name, CountryOfResidence: r.CountryOfResidence,
		Password: r.Password, Now: now.UnixMilli(), ExpiresAt: now.Add(codeLifetime).UnixMilli(),
	})
	if err != nil {
		return "", fmt.Errorf("store a code: %w", err)
	}
	return code, nil
}

// tryCode spends a try of every code that the address has for the purpose, and
// one of the network address, in a transaction of its own before anything is
// compared. Then it calls use with the code that was meant, in another. A
// refusal, also one that use returns as errCode, is recorded; it costs the same
// whether the address has an account or not. The right code gives back the try
// of the network address alone.
func (s *Service) tryCode(ctx context.Context, purpose, email, code string, use func(*sqldb.Tx, tryCodesHereRow) error) error {
	key, err := s.codeKeys.get(ctx, s.now().UnixMilli())
	if err != nil {
		return err
	}
	rows, spent, err := s.spendTry(ctx, purpose, email)
	if err != nil {
		return err
	}
	defer spent.Settle()
	want := hashCode(key, purpose, email, code)
	outcome := error(errCode)
	for _, row := range rows {
		if !hmac.Equal(row.CodeHash, want) {
			continue
		}
		outcome = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
			if err := use(tx, row); err != nil {
				return err
			}
			return spent.GiveBack(ctx, tx)
		})
	}
	if outcome != error(errCode) { //nolint:errorlint // the value itself, as use returns it
		return outcome
	}
	return s.refuseCode(ctx, purpose, email)
}

// spendTry gives the codes that this try may be compared with.
func (s *Service) spendTry(ctx context.Context, purpose, email string) (rows []tryCodesHereRow, spent *ratelimit.Spent, err error) {
	known, err := s.knownTo(ctx, email)
	if err != nil {
		return nil, nil, err
	}
	p := tryCodesHereParams{Email: email, Purpose: purpose, Most: codeTries, Now: s.now().UnixMilli(), Place: addressKey(ctx)}
	if known != "" {
		p.Known = 1
	}
	spent, err = s.limiter.Spend(ctx, func(tx *sqldb.Tx) error {
		if rows, err = New(tx).tryCodesHere(ctx, p); err != nil {
			return fmt.Errorf("try a code: %w", err)
		}
		elsewhere := tryCodesElsewhereParams(p)
		elsewhere.Most = codeTriesElsewhere
		more, err := New(tx).tryCodesElsewhere(ctx, elsewhere)
		if err != nil {
			return fmt.Errorf("try a code: %w", err)
		}
		for _, row := range more {
			rows = append(rows, tryCodesHereRow(row))
		}
		return nil
	}, s.limits.WrongCodesPerAddress.hit(ratelimit.CodesFromAddress, addressKey(ctx)))
	return rows, spent, err
}

// refuseCode records a wrong code and returns the refusal.
func (s *Service) refuseCode(ctx context.Context, purpose, email string) error {
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		row, err := New(tx).userByEmail(ctx, email)
		if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
			return fmt.Errorf("look up a user: %w", err)
		}
		return s.audit.Record(ctx, tx, audit.Entry{
			UserID: row.ID, Action: "user.code_refused", Object: userObject(row.ID),
			Detail: map[string]any{"purpose": purpose, "email": email, "ip": web.ClientIP(ctx)},
		})
	})
	if err != nil {
		return err
	}
	return errCode
}
