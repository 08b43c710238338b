package certs

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Draft is the request for a new record.
type Draft struct {
	Action Origin `json:"action,omitempty" enum:"create,import,csr" default:"create"`
	Fields
	CertPEM       string `json:"cert_pem,omitempty" maxLength:"262144" doc:"import: the leaf, issuers may follow."`
	ChainPEM      string `json:"chain_pem,omitempty" maxLength:"262144" doc:"import: the issuers."`
	PrivateKeyPEM string `json:"private_key_pem,omitempty" maxLength:"65536" doc:"import: the unencrypted key of the leaf."`
	CSRPEM        string `json:"csr_pem,omitempty" maxLength:"65536" doc:"csr: the signing request; its key never reaches the server."`
}

// brought is what came along with a draft, parsed and checked.
type brought struct {
	chain  Chain  // import
	keyDER []byte // import, PKCS#8
	csr    []byte // csr, DER
}

// create makes a record: NEW, or ACTIVE at once for an import. A person needs a
// fresh proof (5034) for a signing request: its key is elsewhere, and whoever
// has it can be the named hosts as soon as the certificate is issued.
func (s *Service) create(ctx context.Context, userID int64, d *Draft) (_ Certificate, warnings []string, err error) {
	if d.Action == OriginCSR {
		if err := s.fresh(ctx); err != nil {
			return Certificate{}, nil, err
		}
	}
	now := s.Now()
	c := Certificate{
		UserID: userID, PublicID: newPublicID(), Origin: d.Action, SANs: []string{}, FallbackAcctIDs: []int64{}, Status: StatusNew,
		Challenge: ChallengeHTTP01, AutoRenew: true, CreatedAt: now.UnixMilli(), UpdatedAt: now.UnixMilli(), Heavy: &Heavy{},
	}
	b, err := c.take(d)
	if err != nil {
		return Certificate{}, nil, err
	}
	defer clear(b.keyDER)
	if err := s.settle(ctx, s.DB.Reader(), &c, &d.Fields); err != nil {
		return Certificate{}, nil, err
	}
	policy := ""
	set(&policy, d.Policy)
	if c.Policy, err = ParsePolicy(policy); err != nil {
		return Certificate{}, nil, fault.Invalid("policy", "%v", err)
	}
	if c.Origin == OriginImport && !c.Policy.WrapsForServer() {
		return Certificate{}, nil, fault.Invalid("policy", "cannot be %s yet: nobody could open the imported key; assign a device first, then change the policy", c.Policy)
	}
	c.KeyDistPolicy = c.Policy
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
		if s.Quota != nil {
			if err := s.Quota(ctx, tx, userID); err != nil {
				return err
			}
		}
		if c.Origin != OriginImport { // what was brought along claims nothing; its first renewal asks
			if warnings, err = s.askNames(ctx, tx, &c); err != nil {
				return err
			}
		}
		if err := insert(ctx, tx, &c, b.csr); err != nil {
			return err
		}
		c.Heavy = heavy("", b.csr)
		if c.Origin == OriginImport {
			if err := s.put(ctx, tx, &c, b.chain, newKey{der: b.keyDER}); err != nil {
				return err
			}
		}
		if c.Origin != OriginCreate && s.Stored != nil {
			if err := s.Stored(ctx, tx, userID); err != nil {
				return err
			}
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "certificate." + string(c.Origin), Object: object(c.ID),
			Detail: map[string]any{"domain_name": c.DomainName, "policy": c.Policy},
		})
	})
	return c, warnings, err
}

// askNames refuses names that another user holds, and says what has yet to be
// proved. Accounts at authorities of this server have rules of their own.
func (s *Service) askNames(ctx context.Context, tx *sqldb.Tx, c *Certificate) ([]string, error) {
	if c.AcctID == 0 {
		return nil, nil
	}
	account, err := s.Accounts.Get(ctx, tx, c.UserID, c.AcctID)
	if err != nil || account.OwnCA() {
		return nil, err
	}
	return s.Names.Missing(ctx, tx, c.Order())
}

// take sets the names and the algorithm from what came along, or from the
// fields where nothing does.
func (c *Certificate) take(d *Draft) (brought, error) {
	for _, member := range []struct {
		name  string
		given bool
		of    Origin
	}{
		{"cert_pem", d.CertPEM != "", OriginImport},
		{"chain_pem", d.ChainPEM != "", OriginImport},
		{"private_key_pem", d.PrivateKeyPEM != "", OriginImport},
		{"csr_pem", d.CSRPEM != "", OriginCSR},
	} {
		if member.given && c.Origin != member.of {
			return brought{}, fault.Invalid(member.name, "belongs to the action %s, not to %s", member.of, c.Origin)
		}
	}
	switch c.Origin {
	case OriginImport:
		return c.takeImport(d)
	case OriginCSR:
		return c.takeCSR(d)
	case OriginCreate:
	}
	if d.DomainName == nil {
		return brought{}, fault.Invalid("domain_name", "is needed: a DNS name such as www.example.com")
	}
	return brought{}, c.applyNames(&d.Fields)
}

func (c *Certificate) takeImport(d *Draft) (brought, error) {
	chain, err := ParseChain(JoinPEM(d.CertPEM, d.ChainPEM))
	if err != nil {
		return brought{}, fault.Invalid("cert_pem", "%v", err)
	}
	key, err := ParseKey([]byte(d.PrivateKeyPEM))
	if err != nil {
		return brought{}, fault.Invalid("private_key_pem", "%v", err)
	}
	if c.KeyAlgorithm, err = AlgorithmOf(key.Public()); err != nil {
		return brought{}, fault.Invalid("private_key_pem", "%v", err)
	}
	names, err := chain.LeafNames()
	if err != nil {
		return brought{}, fault.Invalid("cert_pem", "%v", err)
	}
	c.DomainName, c.SANs = names.Domain, names.SANs
	if err := c.applyNames(&d.Fields); err != nil {
		return brought{}, err
	}
	if !SameKey(chain.Leaf.PublicKey, key.Public()) {
		return brought{}, fault.Invalid("private_key_pem", "does not belong to the certificate")
	}
	der, err := MarshalKey(key)
	return brought{chain: chain, keyDER: der}, err
}

func (c *Certificate) takeCSR(d *Draft) (brought, error) {
	if d.CSRPEM == "" {
		return brought{}, fault.Invalid("csr_pem", "is needed: a signing request in PEM")
	}
	csr, err := ParseCSR([]byte(d.CSRPEM))
	if err != nil {
		return brought{}, err
	}
	c.KeyAlgorithm, c.DomainName, c.SANs = csr.Algorithm, csr.Names.Domain, csr.Names.SANs
	if err := c.applyNames(&d.Fields); err != nil {
		return brought{}, err
	}
	if c.Names().SetKey() != csr.Names.SetKey() {
		return brought{}, fault.Invalid("sans", "are not the names of the signing request; leave domain_name and sans out")
	}
	return brought{csr: csr.DER}, nil
}

// settle sets account and settings, which an account and its CA may limit.
func (s *Service) settle(ctx context.Context, q sqldb.Querier, c *Certificate, f *Fields) error {
	set(&c.AcctID, f.AcctID)
	if c.AcctID == 0 && c.Origin != OriginImport {
		return fault.Invalid("acct_id", "is needed: the ACME account that issues the certificate")
	}
	if c.AcctID == 0 {
		if c.KeyAlgorithm == "" {
			c.KeyAlgorithm = AlgorithmECDSA
		}
		return c.applySettings(f)
	}
	account, err := s.Accounts.Get(ctx, q, c.UserID, c.AcctID)
	if err != nil {
		return err
	}
	if c.KeyAlgorithm == "" {
		c.KeyAlgorithm = accountAlgorithm(&account)
	}
	if err := c.applySettings(f); err != nil {
		return err
	}
	return c.checkAccount(&account)
}

// newPublicID gives an identifier of a certificate that tells nothing about how
// many there are, in the form of an RFC 9562 UUID of version 4.
func newPublicID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
