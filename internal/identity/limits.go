package identity

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limit is how many of something are allowed within a window.
type Limit struct {
	Max    int
	Window time.Duration
}

// Limits hold back guessing and flooding (decisions.md section 8.2). An account
// is an e-mail address, whether there is a user or not; an address is one of
// the network.
type Limits struct {
	WrongPasswordsPerAccount Limit
	WrongPasswordsPerAddress Limit
	WrongCodesPerAddress     Limit
	RegistrationsPerAccount  Limit // of mails to one address
	RegistrationsPerAddress  Limit
	ResetsPerAccount         Limit
	ResetsPerAddress         Limit
}

// DefaultLimits are those of decisions.md section 8.2.
func DefaultLimits() Limits {
	return Limits{
		WrongPasswordsPerAccount: Limit{Max: 10, Window: 15 * time.Minute},
		WrongPasswordsPerAddress: Limit{Max: 100, Window: 15 * time.Minute},
		WrongCodesPerAddress:     Limit{Max: 100, Window: 15 * time.Minute},
		RegistrationsPerAccount:  Limit{Max: 5, Window: time.Hour},
		RegistrationsPerAddress:  Limit{Max: 30, Window: time.Hour},
		ResetsPerAccount:         Limit{Max: 5, Window: time.Hour},
		ResetsPerAddress:         Limit{Max: 30, Window: time.Hour},
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
