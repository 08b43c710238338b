package certs

import (
	"reflect"
	"strings"

	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/fault"
)

// Fields are what a caller may set. An absent member is left as it is.
type Fields struct {
	DomainName          *string        `json:"domain_name,omitempty" maxLength:"1012"`
	SANs                []string       `json:"sans,omitempty" maxItems:"1000" doc:"At most 100 different names, domain_name included; * as the leftmost label."`
	AcctID              *int64         `json:"acct_id,omitempty" minimum:"0" nullable:"true"`
	KeyAlgorithm        *string        `json:"key_algorithm,omitempty" maxLength:"20" doc:"ECDSA (default), ECDSA_P384, RSA_2048, RSA_3072, RSA_4096, or ED25519 for own CAs."`
	Policy              *string        `json:"policy,omitempty" maxLength:"20" doc:"HYBRID (default), MASTER_ONLY or DEVICE_REQUIRED."`
	ServerDecryptExport *bool          `json:"server_decrypt_export,omitempty" doc:"Lets devices have the key in plaintext under MASTER_ONLY."`
	Challenge           *string        `json:"challenge,omitempty" maxLength:"20" doc:"http-01."`
	DNSCredentialID     *int64         `json:"dns_credential_id,omitempty" nullable:"true" doc:"Not with http-01."`
	AutoRenew           *bool          `json:"auto_renew,omitempty" doc:"Default true."`
	RenewBeforeDays     *int64         `json:"renew_before_days,omitempty" minimum:"0" maximum:"36500" doc:"0 (default): a third of the lifetime."`
	RenewalWindow       *RenewalWindow `json:"renewal_window,omitempty" doc:"An empty object removes it."`
	FallbackAcctIDs     []int64        `json:"fallback_acct_ids,omitempty" maxItems:"0" doc:"Empty for now."`
	Organization        *string        `json:"organization,omitempty" maxLength:"64"`
	OrganizationalUnit  *string        `json:"organizational_unit,omitempty" maxLength:"64"`
	Country             *string        `json:"country,omitempty" pattern:"^([A-Za-z]{2})?$" patternDescription:"two letters"`
	State               *string        `json:"state,omitempty" maxLength:"128"`
	Locality            *string        `json:"locality,omitempty" maxLength:"128"`
}

func (f *Fields) empty() bool { return reflect.ValueOf(f).Elem().IsZero() }

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// applyNames sets the names: what is given, normalised, and what was there.
func (c *Certificate) applyNames(f *Fields) error {
	if f.DomainName == nil && f.SANs == nil {
		return nil
	}
	domain, sans := c.DomainName, c.SANs
	set(&domain, f.DomainName)
	if f.SANs != nil {
		sans = f.SANs
	}
	names, err := NormalizeNames(domain, sans)
	if err != nil {
		return err
	}
	before := c.Names()
	c.DomainName, c.SANs = names.Domain, names.SANs
	if names.SetKey() != before.SetKey() {
		c.Verified = false
	}
	return nil
}

// applySettings sets the given members other than names, account and policy,
// which depend on more than the request.
func (c *Certificate) applySettings(f *Fields) error {
	if f.KeyAlgorithm != nil {
		algorithm, err := ParseKeyAlgorithm(*f.KeyAlgorithm)
		if err != nil {
			return fault.Invalid("key_algorithm", "%v", err)
		}
		if c.Origin == OriginCSR && algorithm != c.KeyAlgorithm {
			return fault.Invalid("key_algorithm", "is %s, that of the signing request", c.KeyAlgorithm)
		}
		c.KeyAlgorithm = algorithm
	}
	if f.Challenge != nil && *f.Challenge != "" && *f.Challenge != ChallengeHTTP01 {
		return fault.Invalid("challenge", "http-01 is the one challenge that is accepted now")
	}
	if f.DNSCredentialID != nil && *f.DNSCredentialID != 0 {
		return fault.Invalid("dns_credential_id", "must be absent: it is of no use with the challenge http-01")
	}
	if f.RenewalWindow != nil {
		if err := f.RenewalWindow.Validate(); err != nil {
			return err
		}
		c.RenewalWindow = f.RenewalWindow
		if w := f.RenewalWindow; len(w.Weekdays) == 0 && w.StartHour == 0 && w.EndHour == 0 {
			c.RenewalWindow = nil
		}
	}
	set(&c.ServerDecryptExport, f.ServerDecryptExport)
	set(&c.AutoRenew, f.AutoRenew)
	set(&c.RenewBeforeDays, f.RenewBeforeDays)
	return c.applySubject(f)
}

func (c *Certificate) applySubject(f *Fields) error {
	for _, member := range []struct {
		name     string
		to, from *string
	}{
		{"organization", &c.Organization, f.Organization},
		{"organizational_unit", &c.OrganizationalUnit, f.OrganizationalUnit},
		{"country", &c.Country, f.Country},
		{"state", &c.State, f.State},
		{"locality", &c.Locality, f.Locality},
	} {
		if member.from == nil {
			continue
		}
		if strings.ContainsFunc(*member.from, func(r rune) bool { return r < ' ' || r == 0x7f || r == '�' }) {
			return fault.Invalid(member.name, "must not hold control characters")
		}
		*member.to = *member.from
	}
	c.Country = strings.ToUpper(c.Country)
	return nil
}

// checkAccount refuses what the account cannot issue.
func (c *Certificate) checkAccount(account *acmeaccounts.Account) error {
	if c.KeyAlgorithm == AlgorithmEd25519 && !account.OwnCA() {
		return fault.Invalid("key_algorithm", "ED25519 is for accounts with an own certificate authority; no public one signs it")
	}
	return nil
}

// accountAlgorithm is the key algorithm that an account prefers, if any.
func accountAlgorithm(account *acmeaccounts.Account) KeyAlgorithm {
	switch {
	case account.LeafKeyAlgorithm == "RSA" && account.LeafRSABits == 4096:
		return AlgorithmRSA4096
	case account.LeafKeyAlgorithm == "RSA" && account.LeafRSABits == 3072:
		return AlgorithmRSA3072
	case account.LeafKeyAlgorithm == "RSA":
		return AlgorithmRSA2048
	case account.LeafECCurve == "P-384" || account.LeafECCurve == "secp384r1":
		return AlgorithmECDSAP384
	}
	return AlgorithmECDSA
}
