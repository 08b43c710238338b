package acmeaccounts

import (
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"certharbor.dev/certharbor/internal/fault"
)

// Status says whether the account exists at its CA.
type Status string

// The states of an account.
const (
	StatusNew        Status = "NEW"
	StatusRegistered Status = "REGISTERED"
)

// Providers that need more than a well-known directory.
const (
	ProviderCustom = "custom"
	ProviderSelfCA = "SELF_CA"
)

// directories are the well-known ones; the keys are values of provider.
var directories = map[string]string{ //nolint:gosec,gochecknoglobals // addresses; never written
	"letsencrypt":         "https://acme-v02.api.letsencrypt.org/directory",
	"letsencrypt-staging": "https://acme-staging-v02.api.letsencrypt.org/directory",
	"zerossl":             "https://acme.zerossl.com/v2/DV90",
	"google":              "https://dv.acme-v02.api.pki.goog/directory",
	"buypass":             "https://api.buypass.com/acme/directory",
	"sslcom":              "https://acme.ssl.com/sslcom-dv-ecc",
}

// BuiltIn tells whether the address is that of a well-known public directory.
func BuiltIn(directoryURL string) bool {
	for _, known := range directories {
		if known == directoryURL {
			return true
		}
	}
	return false
}

const providerList = "letsencrypt, letsencrypt-staging, zerossl, google, buypass, sslcom, custom or SELF_CA"

// Account is an ACME account without its secrets. Times are Unix ms.
type Account struct {
	ID               int64  `json:"id"`
	UserID           int64  `json:"user_id"`
	Name             string `json:"name"`
	Email            string `json:"email"`
	Provider         string `json:"provider"`
	DirectoryURL     string `json:"directory_url"`
	CABundlePEM      string `json:"ca_bundle_pem"`
	CAID             *int64 `json:"ca_id" doc:"The own certificate authority that issues for this account, or null."`
	EABKeyID         string `json:"eab_kid"`
	Status           Status `json:"status" enum:"NEW,REGISTERED"`
	AccountURL       string `json:"account_url"`
	LeafKeyAlgorithm string `json:"leaf_key_algorithm"`
	LeafRSABits      int64  `json:"leaf_rsa_bits"`
	LeafECCurve      string `json:"leaf_ec_curve"`
	CertValidSeconds int64  `json:"cert_valid_seconds"`
	Profile          string `json:"profile"`
	CreatedAt        int64  `json:"created_at"`
	UpdatedAt        int64  `json:"updated_at"`

	sealedKey []byte // PKCS#8, sealed
	sealedEAB []byte // HMAC key, sealed; nil: none
}

// OwnCA reports whether a CA of this server issues for the account.
func (a *Account) OwnCA() bool { return a.CAID != nil && *a.CAID > 0 }

// Fields are what a caller may set. A nil member is left as it is.
type Fields struct {
	Name             *string `json:"name,omitempty" minLength:"1" maxLength:"200"`
	Email            *string `json:"email,omitempty" maxLength:"254"`
	Provider         *string `json:"provider,omitempty" maxLength:"40"`
	DirectoryURL     *string `json:"directory_url,omitempty" maxLength:"2000"`
	CABundlePEM      *string `json:"ca_bundle_pem,omitempty" maxLength:"200000"`
	CAID             *int64  `json:"ca_id,omitempty" minimum:"0" nullable:"true"`
	EABKeyID         *string `json:"eab_kid,omitempty" maxLength:"500"`
	EABHMACKey       *string `json:"eab_hmac_key,omitempty" maxLength:"500" doc:"Never returned."`
	LeafKeyAlgorithm *string `json:"leaf_key_algorithm,omitempty" maxLength:"20" nullable:"true"`
	LeafRSABits      *int64  `json:"leaf_rsa_bits,omitempty" nullable:"true"`
	LeafECCurve      *string `json:"leaf_ec_curve,omitempty" maxLength:"20" nullable:"true"`
	CertValidSeconds *int64  `json:"cert_valid_seconds,omitempty" minimum:"0" maximum:"315360000" nullable:"true"`
	Profile          *string `json:"profile,omitempty" maxLength:"100"`
}

// apply sets the given members and checks the whole. The HMAC key is the
// caller's to seal.
func (a *Account) apply(f *Fields) error {
	set(&a.Name, f.Name)
	set(&a.Email, f.Email)
	set(&a.Provider, f.Provider)
	set(&a.CABundlePEM, f.CABundlePEM)
	set(&a.EABKeyID, f.EABKeyID)
	set(&a.LeafKeyAlgorithm, f.LeafKeyAlgorithm)
	set(&a.LeafRSABits, f.LeafRSABits)
	set(&a.LeafECCurve, f.LeafECCurve)
	set(&a.CertValidSeconds, f.CertValidSeconds)
	set(&a.Profile, f.Profile)
	if f.CAID != nil {
		a.CAID = f.CAID
		if *f.CAID == 0 {
			a.CAID = nil
		}
	}
	if strings.TrimSpace(a.Name) == "" {
		return fault.Invalid("name", "must not be empty")
	}
	if address, err := mail.ParseAddress(a.Email); a.Email != "" && (err != nil || address.Address != a.Email) {
		return fault.Invalid("email", "must be an e-mail address such as ops@example.org, or empty")
	}
	if err := a.checkLeaf(); err != nil {
		return err
	}
	return a.applyDirectory(f.DirectoryURL)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// applyDirectory settles which directory the account is at.
func (a *Account) applyDirectory(given *string) error {
	before := a.DirectoryURL
	switch known, ok := directories[a.Provider]; {
	case a.OwnCA():
		a.DirectoryURL = ""
	case a.Provider == ProviderSelfCA:
		return fault.Invalid("ca_id", "must name one of your certificate authorities when provider is SELF_CA")
	case a.Provider == ProviderCustom:
		set(&a.DirectoryURL, given)
		u, err := url.Parse(a.DirectoryURL)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return fault.Invalid("directory_url", "must be the https address of an ACME directory when provider is custom")
		}
	case ok:
		if given != nil && *given != "" && *given != known {
			return fault.Invalid("directory_url", "is fixed for provider %s; leave it out or use provider custom", a.Provider)
		}
		a.DirectoryURL = known
	default:
		return fault.Invalid("provider", "must be %s", providerList)
	}
	if a.DirectoryURL != before {
		a.AccountURL, a.Status = "", StatusNew
	}
	return nil
}

func (a *Account) checkLeaf() error {
	if !slices.Contains([]string{"", "ECDSA", "RSA"}, a.LeafKeyAlgorithm) {
		return fault.Invalid("leaf_key_algorithm", "must be ECDSA or RSA")
	}
	if !slices.Contains([]int64{0, 2048, 3072, 4096}, a.LeafRSABits) {
		return fault.Invalid("leaf_rsa_bits", "must be 2048, 3072 or 4096")
	}
	if !slices.Contains([]string{"", "P-256", "P-384", "prime256v1", "secp384r1"}, a.LeafECCurve) {
		return fault.Invalid("leaf_ec_curve", "must be P-256 or P-384")
	}
	return nil
}
