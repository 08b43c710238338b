package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/web"
)

// Limit is how many of something are allowed within a window.
type Limit struct {
	Max    int
	Window time.Duration
}

// Limits hold back guessing and flooding. An account is an e-mail address,
// whether there is a user or not; an address is one of the network. Per account
// counts an account from one address, so that a stranger elsewhere does not use
// it up; the total counts it from everywhere.
type Limits struct {
	WrongPasswordsPerAccount      Limit
	WrongPasswordsPerAccountTotal Limit
	WrongPasswordsPerAddress      Limit
	WrongCodesPerAddress          Limit
	RegistrationsPerAccount       Limit
	RegistrationsPerAccountTotal  Limit
	RegistrationsPerAddress       Limit
	ResetsPerAccount              Limit
	ResetsPerAccountTotal         Limit
	ResetsPerAddress              Limit
}

// DefaultLimits are those without a setting.
func DefaultLimits() Limits {
	return Limits{
		WrongPasswordsPerAccount:      Limit{Max: 10, Window: 15 * time.Minute},
		WrongPasswordsPerAccountTotal: Limit{Max: 100, Window: 24 * time.Hour},
		WrongPasswordsPerAddress:      Limit{Max: 100, Window: 15 * time.Minute},
		WrongCodesPerAddress:          Limit{Max: 100, Window: 15 * time.Minute},
		RegistrationsPerAccount:       Limit{Max: 5, Window: time.Hour},
		RegistrationsPerAccountTotal:  Limit{Max: 20, Window: 24 * time.Hour},
		RegistrationsPerAddress:       Limit{Max: 30, Window: time.Hour},
		ResetsPerAccount:              Limit{Max: 5, Window: time.Hour},
		ResetsPerAccountTotal:         Limit{Max: 20, Window: 24 * time.Hour},
		ResetsPerAddress:              Limit{Max: 30, Window: time.Hour},
	}
}

// ParseLimits changes the default limits by settings of the form
// resets-per-account=5/1h: a name, how many (1 to a million), a window (1s to
// 24h).
func ParseLimits(settings []string) (Limits, error) {
	l := DefaultLimits()
	byName := map[string]*Limit{
		"wrong-passwords-per-account": &l.WrongPasswordsPerAccount, "wrong-passwords-per-address": &l.WrongPasswordsPerAddress,
		"wrong-codes-per-address": &l.WrongCodesPerAddress, "registrations-per-account": &l.RegistrationsPerAccount,
		"registrations-per-address": &l.RegistrationsPerAddress, "resets-per-account": &l.ResetsPerAccount, "resets-per-address": &l.ResetsPerAddress,
		"wrong-passwords-per-account-total": &l.WrongPasswordsPerAccountTotal, "registrations-per-account-total": &l.RegistrationsPerAccountTotal,
		"resets-per-account-total": &l.ResetsPerAccountTotal,
	}
	for _, setting := range settings {
		name, value, _ := strings.Cut(strings.TrimSpace(setting), "=")
		limit := byName[name]
		if limit == nil {
			names := make([]string, 0, len(byName))
			for known := range byName {
				names = append(names, known)
			}
			slices.Sort(names)
			return Limits{}, fmt.Errorf("no limit is named %q; there are %s", name, strings.Join(names, ", "))
		}
		count, window, _ := strings.Cut(value, "/")
		most, err1 := strconv.Atoi(count)
		length, err2 := time.ParseDuration(window)
		if err1 != nil || err2 != nil || most < 1 || most > 1_000_000 || length < time.Second || length > 24*time.Hour {
			return Limits{}, fmt.Errorf("%s: must be a number and a window, for example 10/15m", name)
		}
		*limit = Limit{Max: most, Window: length}
	}
	return l, nil
}

func (l Limit) hit(rule ratelimit.Rule, key string) ratelimit.Hit {
	return ratelimit.Hit{Rule: rule, Key: key, Max: l.Max, Window: l.Window}
}

// accountKey stands for an account in buckets: it hides the address, which may
// be no account at all, and changes with the password, so that a new one begins
// with nothing counted.
func accountKey(email, password string) string {
	sum := sha256.Sum256([]byte(email + "\x00" + password))
	return hex.EncodeToString(sum[:16])
}

// slot is what windows of a day count an account by: there are 65,536, however
// many accounts strangers make up. It depends on a key, lest they make up those
// that share the one of another.
func (s *Service) slot(account string) string {
	return hex.EncodeToString(knownMAC(s.codeKeys.had(), "slot", 0, account)[:2])
}

func addressKey(ctx context.Context) string { return ratelimit.AddressKey(web.ClientIP(ctx)) }
