package providers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// errRaced says that the account was bound while a user was being made for it.
var errRaced = errors.New("the account was bound meanwhile")

// signIn signs in the user to whom the account is bound, in place of the
// session that the browser had, or makes one where registration allows it.
// Errors: 5018 when the user is not ACTIVE, 5022 when no user may be made or the
// user waits for an administrator, 5013 for too many new users from an address,
// 5030 when the account's address has a user already.
func (s *Service) signIn(ctx context.Context, a attempt, who account, m identity.Method) (user identity.User, cookies []*http.Cookie, err error) {
	var refused error
	enter := func(tx *sqldb.Tx) error {
		refused = nil
		userID, err := s.owner(ctx, tx, a.provider, who)
		if err != nil {
			return err
		}
		cookies, user, err = s.identity.SignIn(ctx, tx, userID, m)
		if fault.Is(err, fault.CodeUnauthorized) || fault.Is(err, fault.CodeForbidden) { // disabled, or not let in yet
			refused = err
			return s.recordRefusal(ctx, tx, a, userID, "the user is not active")
		}
		return err
	}
	err = s.db.InTx(ctx, enter)
	if errors.Is(err, errRaced) || fault.Is(err, fault.CodeConflict) { // the one that was faster is there now
		err = s.db.InTx(ctx, enter)
	}
	switch {
	case fault.Is(err, fault.CodeConflict), fault.Is(err, fault.CodeInvalid), fault.Is(err, fault.CodeForbidden):
		err = s.refuse(ctx, a, err)
	case err == nil:
		err = refused
	}
	return user, cookies, err
}

// owner is the user to whom the account is bound, made if there is none.
func (s *Service) owner(ctx context.Context, tx *sqldb.Tx, provider string, who account) (int64, error) {
	now := s.now().UnixMilli()
	bound, err := New(tx).useBinding(ctx, useBindingParams{LastUsedAt: now, Name: who.name, Issuer: who.issuer, Subject: who.subject})
	if err == nil {
		return bound.UserID, nil
	}
	if !sqldb.Is(err, sqldb.ErrNotFound) {
		return 0, fmt.Errorf("look up a binding: %w", err)
	}
	email := who.email
	if _, err := identity.NormalizeEmail(email); err != nil {
		email = "" // no address that we could use is none
	}
	userID, err := s.identity.CreateFederated(ctx, tx, s.mode(provider, email), who.userName, email)
	if err != nil {
		return 0, err
	}
	return userID, s.insert(ctx, tx, userID, provider, who, now)
}

// mode says whether the provider may bring a new user with this verified
// address, "" for none.
func (s *Service) mode(provider, email string) identity.RegistrationMode {
	door, mode := s.doors[provider], s.identity.Registration()
	if door.Registration != "" {
		mode = door.Registration
	}
	if len(door.Domains) == 0 {
		return mode
	}
	if domain := email[strings.LastIndexByte(email, '@')+1:]; !slices.Contains(door.Domains, strings.ToLower(domain)) {
		return identity.RegistrationClosed
	}
	return mode
}

// insert binds the account to the user, who has none of the provider yet.
func (s *Service) insert(ctx context.Context, tx *sqldb.Tx, userID int64, provider string, who account, usedAt int64) error {
	_, err := New(tx).insertBinding(ctx, insertBindingParams{
		UserID: userID, Provider: provider, Issuer: who.issuer, Subject: who.subject, Name: who.name, CreatedAt: s.now().UnixMilli(), LastUsedAt: usedAt,
	})
	if sqldb.Is(err, sqldb.ErrNotFound) { // ON CONFLICT left it out
		return errRaced
	}
	if err != nil {
		return fmt.Errorf("bind an account: %w", err)
	}
	return s.audit.Record(ctx, tx, audit.Entry{
		UserID: userID, Action: "user.bind", Object: fmt.Sprintf("user %d", userID),
		Detail: map[string]any{"provider": provider, "subject": who.subject, "name": who.name, "ip": web.ClientIP(ctx)},
	})
}
