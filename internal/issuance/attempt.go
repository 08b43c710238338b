package issuance

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// attempt is one attempt in the hands of this process. Everything but row is
// for speed and found again after a crash.
type attempt struct {
	s     *Service
	row   issuanceRow
	begin time.Time // of this run

	client     *acme.Client
	account    acmeaccounts.Account
	atCA       acme.Account
	order      acme.Order    // as the CA showed it last; no URL: not yet in this run
	challenges []acme.HTTP01 // published, with what is needed to accept them
	accepted   bool          // the CA was told that it can look
	dead       bool          // the CA said that no certificate will come of the order
}

// claim makes this process the one that works on the attempt, and PENDING
// PROCESSING. failure is why the step prepare, which the first claim takes
// along, has to be repeated; err is that of the save.
func (a *attempt) claim(ctx context.Context) (failure, err error) {
	now := a.s.Now()
	var made request
	prepare := a.row.Step == stepPrepare
	if prepare {
		made, failure = a.request(ctx)
		defer clear(made.key)
	}
	message := ""
	switch {
	case a.row.Status == StatusPending:
		message = "processing begins"
	case a.row.LeaseUntil > 0: // whoever had it went away without giving it back
		message = "taken up again after an interruption"
	}
	err = a.save(ctx, message, func(r *issuanceRow) {
		r.Status, r.LeaseUntil = StatusProcessing, now.Add(leaseTime).UnixMilli()
		r.DueAt = r.LeaseUntil
		if a.row.LeaseUntil > 0 {
			r.StepSince = now.UnixMilli()
		}
		if prepare && failure == nil {
			made.into(r)
		}
	}, func(ctx context.Context, tx *sqldb.Tx, next issuanceRow) error {
		if prepare && failure == nil {
			if err := a.s.storeRequest(ctx, tx, next, made); err != nil {
				return err
			}
		}
		if a.row.Status == StatusProcessing {
			return nil
		}
		return a.s.Certs.NoteIssue(ctx, tx, next.CertID, next.ID, StatusProcessing, now.UnixMilli())
	})
	return failure, err
}

// prepare is the step of that name, where the claim could not take it along.
func (a *attempt) prepare(ctx context.Context) error {
	made, err := a.request(ctx)
	if err != nil {
		return err
	}
	defer clear(made.key)
	return a.save(ctx, "key and signing request are ready", made.into, func(ctx context.Context, tx *sqldb.Tx, next issuanceRow) error {
		return a.s.storeRequest(ctx, tx, next, made)
	})
}

// request is what is to be signed.
type request struct {
	names []string
	csr   []byte // DER
	key   []byte // PKCS#8 DER; nil when the CSR is the owner's
	next  string // the step that follows
}

func (made request) into(r *issuanceRow) {
	r.Names, r.Csr, r.Step = encodeNames(made.names), made.csr, made.next
}

func (a *attempt) request(ctx context.Context) (request, error) {
	cert, err := a.s.Certs.Record(ctx, a.s.DB.Reader(), a.row.UserID, a.row.CertID)
	if err != nil {
		return request{}, err
	}
	if a.row.OrderUrl != "" { // which fixes the names
		names := decodeNames(a.row.Names)
		cert.DomainName, cert.SANs = names[0], names
	}
	csr, key, err := a.s.Certs.CSRFor(ctx, a.s.DB.Reader(), cert)
	if f := fault.As(err); f != nil && f.Code == fault.CodeUnavailable { // others make keys
		return request{}, &acme.Later{After: f.RetryAfter}
	}
	if err != nil {
		return request{}, err
	}
	made := request{names: cert.Names().All(), csr: csr, key: key, next: stepAccount}
	if a.row.OrderUrl != "" { // the key is made anew for an order that is ready
		made.next = stepFinalize
		return made, nil
	}
	if account, err := a.s.Accounts.Get(ctx, a.s.DB.Reader(), a.row.UserID, a.row.AcctID); err == nil && account.AccountURL != "" {
		made.next = stepOrder
	}
	return made, nil
}

func keyPlace(id int64) seal.Place {
	return seal.Place{Table: "issuances", Row: id, Column: "private_key"}
}

// storeRequest keeps the key for the certificate: sealed to the devices where
// they alone may have it, for the server elsewhere.
func (s *Service) storeRequest(ctx context.Context, tx *sqldb.Tx, row issuanceRow, made request) error {
	var sealed, forDevices []byte
	if len(made.key) > 0 {
		var err error
		if forDevices, err = s.Certs.SealKey(ctx, tx, row.CertID, made.key); err == nil && forDevices == nil {
			sealed, err = s.Keys.Seal(keyPlace(row.ID), made.key)
		}
		if err != nil {
			return fmt.Errorf("seal key of issuance %d: %w", row.ID, err)
		}
	}
	if err := New(tx).setKey(ctx, setKeyParams{ID: row.ID, Csr: made.csr, PrivateKey: sealed, DeviceKey: forDevices}); err != nil {
		return fmt.Errorf("store key of issuance %d: %w", row.ID, err)
	}
	return nil
}

// key gives the private key of the CSR: opened, or as it is sealed to devices;
// neither when the owner has it.
func (a *attempt) key(ctx context.Context) (der, forDevices []byte, err error) {
	row, err := New(a.s.DB.Reader()).issuanceByID(ctx, a.row.ID)
	if err != nil {
		return nil, nil, fmt.Errorf("read key of issuance %d: %w", a.row.ID, err)
	}
	if row.PrivateKey == nil {
		return nil, row.DeviceKey, nil
	}
	der, err = a.s.Keys.Open(keyPlace(a.row.ID), row.PrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("open key of issuance %d: %w", a.row.ID, err)
	}
	return der, nil, nil
}

// outdated tells whether the key was made for another custody than the one that
// its certificate has got since.
func (a *attempt) outdated(ctx context.Context) (bool, error) {
	cert, err := a.s.Certs.Record(ctx, a.s.DB.Reader(), a.row.UserID, a.row.CertID)
	if err != nil {
		return false, err
	}
	row, err := New(a.s.DB.Reader()).issuanceByID(ctx, a.row.ID)
	if err != nil {
		return false, fmt.Errorf("read key of issuance %d: %w", a.row.ID, err)
	}
	server := cert.KeyPolicy().WrapsForServer()
	return row.PrivateKey != nil && !server || row.DeviceKey != nil && server, nil
}

// wanted is what the certificate has to be.
func (a *attempt) wanted() (acme.Wanted, error) {
	csr, err := x509.ParseCertificateRequest(a.row.Csr)
	if err != nil {
		return acme.Wanted{}, fmt.Errorf("parse own signing request: %w", err)
	}
	return acme.Wanted{Key: csr.PublicKey, Names: decodeNames(a.row.Names)}, nil
}

// connect finds the account and the client of its CA.
func (a *attempt) connect(ctx context.Context) error {
	account, err := a.s.Accounts.Get(ctx, a.s.DB.Reader(), a.row.UserID, a.row.AcctID)
	if err != nil {
		return err
	}
	client, atCA, err := a.s.Accounts.Client(&account)
	if err != nil {
		return err
	}
	a.account, a.client, a.atCA = account, client, atCA
	return nil
}
