package providers

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/sqldb"
)

// bindingWish is what a signed-in user says about an account to be bound.
type bindingWish struct {
	to                 string // path to come back to
	address, signature string // of a wallet
}

// bindStep begins to bind an account at the provider to the caller, for the
// caller's session alone; with a wallet's signature it also ends that. Errors:
// 5034 without a fresh proof; 5003 for a provider that is not set up, 5000 for a
// bad path, address or signature, 5013 for too many attempts, 5014 when the
// provider has to be asked first and is not there, 5018 for a signature that is
// refused, 5030 as bind.
func (s *Service) bindStep(ctx context.Context, code string, wish bindingWish) (bindingAnswer, *http.Cookie, error) {
	if err := s.identity.RequireStepUp(ctx, s.db.Reader()); err != nil {
		return bindingAnswer{}, nil, err
	}
	switch {
	case code == kindSolana && wish.signature != "":
		bound, cookie, err := s.walletBind(ctx, wish.address, wish.signature)
		return bindingAnswer{Binding: &bound}, cookie, err
	case code == kindSolana:
		message, cookie, err := s.startWallet(ctx, toBind, wish.address)
		return bindingAnswer{Message: message.Text, ExpiresAt: message.ExpiresAt}, cookie, err
	}
	p, err := s.provider(code, "")
	if err != nil {
		return bindingAnswer{}, nil, err
	}
	to, err := returnPath(wish.to)
	if err != nil {
		return bindingAnswer{}, nil, err
	}
	address, cookie, err := s.begin(ctx, p, attempt{provider: code, purpose: toBind, sessionID: access.From(ctx).SessionID, returnTo: to})
	return bindingAnswer{URL: address}, cookie, err
}

// bind adds the account to the caller's ways to sign in. What is bound to the
// caller already is no error. Errors: 5030 when it is somebody else's, or when
// the caller has another account of the provider.
func (s *Service) bind(ctx context.Context, a attempt, who account) (identity.Binding, error) {
	caller := access.From(ctx)
	bound := identity.Binding{Provider: a.provider, Subject: who.subject, Name: who.name, CreatedAt: s.now().UnixMilli()}
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		err := s.insert(ctx, tx, caller.UserID, a.provider, who, 0)
		if err == nil {
			return s.identity.TellWayIn(ctx, tx, caller.UserID, "An account elsewhere was bound", a.provider)
		}
		if !errors.Is(err, errRaced) {
			return err
		}
		owner, err := New(tx).bindingOwner(ctx, bindingOwnerParams{Issuer: who.issuer, Subject: who.subject})
		switch {
		case sqldb.Is(err, sqldb.ErrNotFound):
			return fault.Conflict("Another account of this provider is bound already; unbind it first.")
		case err != nil:
			return fmt.Errorf("look up a binding: %w", err)
		case owner != caller.UserID:
			return fault.Conflict("This account signs somebody else in here; unbind it there first.")
		}
		return nil
	})
	if fault.Is(err, fault.CodeConflict) {
		err = s.refuse(ctx, a, err)
	}
	return bound, err
}

// Bindings lists the user's accounts elsewhere, oldest first: part of
// identity.Factors.
func (s *Service) Bindings(ctx context.Context, q sqldb.Querier, userID int64) ([]identity.Binding, error) {
	rows, err := New(q).bindingsOf(ctx, userID)
	if err != nil {
		return nil, fmt.Errorf("list bindings: %w", err)
	}
	list := make([]identity.Binding, 0, len(rows))
	for _, r := range rows {
		list = append(list, identity.Binding{Provider: r.Provider, Subject: r.Subject, Name: r.Name, CreatedAt: r.CreatedAt})
	}
	return list, nil
}

// Unbind removes the user's account at the provider: part of identity.Factors.
// Errors: 5003 when there is none.
func (s *Service) Unbind(ctx context.Context, tx *sqldb.Tx, userID int64, provider string) error {
	if !oidcName.MatchString(provider) { // also what no column can hold
		return fault.NotFound("binding")
	}
	_, err := New(tx).deleteBinding(ctx, deleteBindingParams{UserID: userID, Provider: provider})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return fault.NotFound("binding")
	}
	if err != nil {
		return fmt.Errorf("delete a binding: %w", err)
	}
	return nil
}
