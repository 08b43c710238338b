package issuance

import (
	"context"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/webhooks"
)

// finalize sends the CSR, the same one however often. Before the first time a
// key whose custody was changed since it was made is made anew: the server must
// not have held what only devices may open.
func (a *attempt) finalize(ctx context.Context) error {
	o, err := a.wants(ctx, a.s.DB.Reader())
	if err != nil {
		return err
	}
	if err := a.s.Names.Check(ctx, a.s.DB.Reader(), o); err != nil { // the name may have changed hands since it was validated
		return err
	}
	if a.row.Tries == 0 && a.order.Status == acme.StatusReady {
		outdated, err := a.outdated(ctx)
		if err != nil {
			return err
		}
		if outdated {
			return a.save(ctx, "the policy has changed; another key is made", func(r *issuanceRow) { r.Step = stepPrepare }, nil)
		}
	}
	order, err := a.client.Finalize(ctx, a.atCA, a.order, a.row.Csr)
	if p := acme.AsProblem(err); p != nil && p.Class == acme.Permanent {
		// It may have been finalised before, by a request whose answer was lost.
		if now, lookErr := a.client.Order(ctx, a.atCA, a.row.OrderUrl); lookErr == nil && (now.Status == acme.StatusProcessing || now.Status == acme.StatusValid) {
			order, err = now, nil
		}
	}
	if err != nil {
		return err
	}
	a.order = order
	switch order.Status {
	case acme.StatusInvalid:
		return a.invalid(ctx)
	case acme.StatusPending, acme.StatusReady:
		return &acme.Problem{Op: "finalize", Detail: "the CA shows the finalised order as " + order.Status, Class: acme.Retry}
	}
	return a.save(ctx, "signing request sent", func(r *issuanceRow) { r.Step = stepDownload }, nil)
}

// download waits until the CA has issued, fetches the certificate, compares it
// with what was ordered and stores it, with everything that follows from it, in
// one transaction.
func (a *attempt) download(ctx context.Context) error {
	if err := a.poll(ctx, acme.StatusProcessing, a.s.sleep); err != nil {
		return err
	}
	if a.order.Status != acme.StatusValid {
		a.order = acme.Order{} // look again
		return &acme.Problem{Op: "order", Detail: "the CA shows the order without a certificate", Class: acme.Retry}
	}
	want, err := a.wanted()
	if err != nil {
		return err
	}
	got, err := a.client.Certificate(ctx, a.atCA, a.order, want)
	if err != nil {
		return err
	}
	chain := certs.Chain{Leaf: got.Leaf, Issuers: got.Issuers}
	if err := chain.CheckLeaf(want.Key, want.Names); err != nil {
		return &acme.Problem{Op: "certificate", Detail: err.Error(), Class: acme.Permanent, Err: acme.ErrBadCertificate}
	}
	key, forDevices, err := a.key(ctx)
	if err != nil {
		return err
	}
	defer clear(key)
	return a.succeed(ctx, certs.Issued{CertID: a.row.CertID, IssuanceID: a.row.ID, Chain: chain, KeyDER: key, DeviceKey: forDevices})
}

func (a *attempt) succeed(ctx context.Context, issued certs.Issued) error {
	serial := issued.Chain.Describe().SerialNumber
	return a.save(ctx, "certificate "+serial+" stored", func(r *issuanceRow) {
		r.Status, r.Step, r.ErrorMessage, r.CompletedAt = StatusSuccess, stepEnd, "", a.s.Now().UnixMilli()
	}, func(ctx context.Context, tx *sqldb.Tx, next issuanceRow) error {
		cert, err := a.s.Certs.Store(ctx, tx, issued)
		if err != nil {
			return err
		}
		if err := a.s.Names.Issued(ctx, tx, next.ID); err != nil {
			return err
		}
		if err := a.s.finish(ctx, tx, next); err != nil {
			return err
		}
		return a.s.Webhooks.Issued(ctx, tx, webhooks.Event{
			CertID: next.CertID, IssueHistoryID: next.ID, UserID: next.UserID, DomainName: cert.DomainName, Names: decodeNames(next.Names),
		})
	})
}
