package quotas

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Name is the name of a quota in settings, commands and answers.
type Name string

// The quotas.
const (
	Certificates Name = "certificates"
	Devices      Name = "devices"
	Accounts     Name = "acme-accounts"
	Webhooks     Name = "webhooks"
	APIKeys      Name = "api-keys"
	Storage      Name = "storage-mib"
	Attempts     Name = "attempts-per-hour"
)

// names are all of them, as they are listed.
var names = []Name{Certificates, Devices, Accounts, Webhooks, APIKeys, Storage, Attempts} //nolint:gochecknoglobals // a constant list

// of names for people what a quota counts.
func (n Name) of() string {
	switch n {
	case Accounts:
		return "ACME accounts"
	case APIKeys:
		return "API keys"
	case Storage:
		return "MiB of certificates, keys and install configurations"
	case Attempts:
		return "attempts to issue within an hour"
	case Certificates, Devices, Webhooks:
	}
	return string(n)
}

// most is the highest number that a quota may be set to.
const most = 1_000_000

// Limits say how much of each quota a user may have.
type Limits map[Name]int64

// DefaultLimits are those of a server without the setting.
func DefaultLimits() Limits {
	return Limits{Certificates: 1000, Devices: 1000, Accounts: 50, Webhooks: 100, APIKeys: 200, Storage: 64, Attempts: 60}
}

// ParseLimits changes the default limits by settings of the form
// certificates=1000.
func ParseLimits(settings []string) (Limits, error) {
	l := DefaultLimits()
	for _, setting := range settings {
		name, allowed, err := Parse(setting)
		if err != nil {
			return nil, err
		}
		l[name] = allowed
	}
	return l, nil
}

// Parse reads name=number.
func Parse(setting string) (Name, int64, error) {
	text, value, _ := strings.Cut(strings.TrimSpace(setting), "=")
	if !slices.Contains(names, Name(text)) {
		known := make([]string, 0, len(names))
		for _, name := range names {
			known = append(known, string(name))
		}
		return "", 0, fmt.Errorf("no quota is named %q; there are %s", text, strings.Join(known, ", "))
	}
	allowed, err := strconv.ParseInt(value, 10, 64)
	if err != nil || allowed < 0 || allowed > most {
		return "", 0, fmt.Errorf("%s: must be a number from 0 to %d, for example %s=1000", text, most, text)
	}
	return Name(text), allowed, nil
}
