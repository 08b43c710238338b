package certs

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/names"
)

// Origin says how a certificate record came to be: the action that made it.
type Origin string

// The origins.
const (
	OriginCreate Origin = "create" // the server makes the keys
	OriginImport Origin = "import" // chain and key were brought along; later keys are made by the server
	OriginCSR    Origin = "csr"    // a signing request was brought along; no key ever reaches the server
)

// ChallengeHTTP01 is the challenge of RFC 8555 section 8.3.
const ChallengeHTTP01 = "http-01"

// Certificate is a record as the API shows it (wire.md section 5, decisions.md
// section 4). Times are Unix ms, 0 where there is none.
type Certificate struct {
	ID         int64    `json:"id"`
	UserID     int64    `json:"user_id"`
	AcctID     int64    `json:"acct_id" doc:"The ACME account; 0: none."`
	PublicID   string   `json:"public_id"`
	Origin     Origin   `json:"origin" enum:"create,import,csr"`
	DomainName string   `json:"domain_name"`
	SANs       []string `json:"sans"`
	Subject
	Status              Status         `json:"status" enum:"NEW,ACTIVE,EXPIRED,REVOKED"`
	KeyAlgorithm        KeyAlgorithm   `json:"key_algorithm"`
	Policy              Policy         `json:"policy" enum:"HYBRID,MASTER_ONLY,DEVICE_REQUIRED"`
	KeyDistPolicy       Policy         `json:"key_dist_policy" doc:"The same as policy."`
	ServerDecryptExport bool           `json:"server_decrypt_export"`
	Challenge           string         `json:"challenge"`
	DNSCredentialID     *int64         `json:"dns_credential_id" doc:"Or null."`
	AutoRenew           bool           `json:"auto_renew"`
	RenewBeforeDays     int64          `json:"renew_before_days" doc:"0: a third of the lifetime."`
	RenewalWindow       *RenewalWindow `json:"renewal_window" doc:"Or null: any time."`
	FallbackAcctIDs     []int64        `json:"fallback_acct_ids"`
	Verified            bool           `json:"verified" doc:"Whether a CA has verified the names."`
	SelfSigned          bool           `json:"self_signed"`
	SerialNumber        string         `json:"serial_number" doc:"Hexadecimal; empty before the first issue."`
	FingerprintSHA256   string         `json:"fingerprint_sha256"`
	Issuer              string         `json:"issuer"`
	NotBefore           int64          `json:"not_before"`
	NotAfter            int64          `json:"not_after"`
	RevokedAt           int64          `json:"revoked_at"`
	RevokeReason        int64          `json:"revoke_reason" doc:"RFC 5280 section 5.3.1."`
	NextRenewalAt       int64          `json:"next_renewal_at"`
	RenewalBlocked      string         `json:"renewal_blocked" doc:"Why it does not renew by itself although it should; empty: it does."`
	LastIssue           *LastIssue     `json:"last_issue" doc:"The newest issuance, or null."`
	CreatedAt           int64          `json:"created_at"`
	UpdatedAt           int64          `json:"updated_at"`
	*Heavy

	nextPolicy Policy // of the next private key, "": the same
}

// LastIssue is the newest issuance of a certificate.
type LastIssue struct {
	ID     int64  `json:"id"`
	Status string `json:"status" enum:"PENDING,PROCESSING,SUCCESS,FAILED,CANCELLED"`
	At     int64  `json:"at"`
}

// Heavy are the long members of a record; lists have them with detail=most
// alone.
type Heavy struct {
	Cert    string `json:"cert" doc:"PEM: the leaf, then its issuers; empty before the first issue."`
	CSR     string `json:"csr" doc:"PEM of the signing request, of origin csr."`
	Orders  string `json:"orders" doc:"Always empty: see the issuance history."`
	DHParam string `json:"dhparam" doc:"Always empty."`
}

// Names gives the names of the record in their normal form.
func (c *Certificate) Names() Names { return Names{Domain: c.DomainName, SANs: c.SANs} }

// Order is what the record's owner wants of an authority.
func (c *Certificate) Order() names.Order {
	return names.Order{UserID: c.UserID, Names: c.Names().All(), Existing: c.Issued() && c.Verified}
}

// KeyPolicy is the policy that the next private key of the record is made for.
func (c *Certificate) KeyPolicy() Policy {
	if c.nextPolicy != "" {
		return c.nextPolicy
	}
	return c.Policy
}

// Issued tells whether a leaf is stored.
func (c *Certificate) Issued() bool { return c.NotAfter != 0 }

func (c *Certificate) describe(leaf Leaf) {
	c.SerialNumber, c.FingerprintSHA256, c.Issuer, c.SelfSigned = leaf.SerialNumber, leaf.FingerprintSHA256, leaf.Issuer, leaf.SelfSigned
	c.NotBefore, c.NotAfter = leaf.NotBefore, leaf.NotAfter
	c.RevokedAt, c.RevokeReason = 0, 0
}

// renewAt is next_renewal_at: 0 where nothing can or shall be renewed, and never
// before now. The longest overdue renews first, and what an owner sets or
// imports must not make a certificate overdue for years.
func (c *Certificate) renewAt(now time.Time) int64 {
	if !c.AutoRenew || !c.Issued() || c.RevokedAt != 0 || c.AcctID == 0 {
		return 0
	}
	at := Renewal{
		CertID: c.ID, NotBefore: time.UnixMilli(c.NotBefore), NotAfter: time.UnixMilli(c.NotAfter),
		BeforeDays: int(c.RenewBeforeDays), Window: c.RenewalWindow,
	}.At()
	return max(minDue, at.UnixMilli(), now.UnixMilli())
}

// encodeNames is how a list of normalised names is stored: a JSON array.
func encodeNames(names []string) (string, error) {
	if len(names) == 0 {
		return "[]", nil
	}
	text, err := json.Marshal(names)
	return string(text), err
}

// decodeNames is the reverse. Normalised names hold neither quotes nor
// backslashes, so that the array needs no JSON parser on every read.
func decodeNames(text string) []string {
	if len(text) < 4 {
		return []string{}
	}
	return strings.Split(text[2:len(text)-2], `","`)
}

func encodeWindow(w *RenewalWindow) (string, error) {
	if w == nil {
		return "", nil
	}
	text, err := json.Marshal(w)
	return string(text), err
}

func decodeWindow(text string) (*RenewalWindow, error) {
	if text == "" {
		return nil, nil
	}
	w := new(RenewalWindow)
	if err := json.Unmarshal([]byte(text), w); err != nil {
		return nil, fmt.Errorf("decode renewal window: %w", err)
	}
	return w, nil
}
