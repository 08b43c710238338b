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

// Codes are 6 digits, live 15 minutes and bear 5 tries (decisions.md section 2).
const (
	codeDigits   = 6
	codeLifetime = 15 * time.Minute
	codeTries    = 5
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
		Email: r.Email, Purpose: purpose, CodeHash: hashCode(key, purpose, r.Email, code), Name: r.Name, CountryOfResidence: r.CountryOfResidence,
		Password: r.Password, Now: now.UnixMilli(), ExpiresAt: now.Add(codeLifetime).UnixMilli(),
	})
	if err != nil {
		return "", fmt.Errorf("store a code: %w", err)
	}
	return code, nil
}

// tryCode spends a try of every code that the address has for the purpose and
// calls use with the one that was meant, in the same transaction. A refusal,
// also one that use returns as errCode, is counted and recorded; it costs the
// same whether the address has an account or not.
func (s *Service) tryCode(ctx context.Context, purpose, email, code string, use func(*sqldb.Tx, tryCodesRow) error) error {
	limit, bucket := s.limits.WrongCodesPerAddress, "code.address "+ratelimit.AddressKey(web.ClientIP(ctx))
	if err := s.limiter.Check(ctx, bucket, limit.Max); err != nil {
		return err
	}
	now := s.now().UnixMilli()
	key, err := s.codeKeys.get(ctx, now)
	if err != nil {
		return err
	}
	want := hashCode(key, purpose, email, code)
	var outcome error
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		rows, err := New(tx).tryCodes(ctx, tryCodesParams{Email: email, Purpose: purpose, Most: codeTries, Now: now})
		if err != nil {
			return fmt.Errorf("try a code: %w", err)
		}
		outcome = errCode
		for _, row := range rows {
			if hmac.Equal(row.CodeHash, want) {
				outcome = use(tx, row)
			}
		}
		if outcome != errCode { //nolint:errorlint // the value itself, as use returns it
			return outcome
		}
		return s.refuseCode(ctx, tx, purpose, email, bucket, limit)
	})
	if err != nil {
		return err
	}
	return outcome
}

func (s *Service) refuseCode(ctx context.Context, tx *sqldb.Tx, purpose, email, bucket string, limit Limit) error {
	if err := s.limiter.TakeIn(ctx, tx, bucket, limit.Max, limit.Window); err != nil {
		return err
	}
	row, err := New(tx).userByEmail(ctx, email)
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return fmt.Errorf("look up a user: %w", err)
	}
	return s.audit.Record(ctx, tx, audit.Entry{
		UserID: row.ID, Action: "user.code_refused", Object: userObject(row.ID),
		Detail: map[string]any{"purpose": purpose, "email": email, "ip": web.ClientIP(ctx)},
	})
}
