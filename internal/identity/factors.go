package identity

import (
	"context"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Binding is an account elsewhere with which a user can sign in.
type Binding struct {
	Provider  string `json:"provider" doc:"Its code, for example github."`
	Subject   string `json:"subject" doc:"The user's id there."`
	Name      string `json:"name" doc:"What the user is called there, for people; may be empty."`
	CreatedAt int64  `json:"created_at" doc:"When it was bound, Unix ms."`
}

// Factors are the ways to sign in that other areas keep: passkeys and
// providers.
type Factors interface {
	// HasPasskey reports whether the user has a passkey.
	HasPasskey(ctx context.Context, q sqldb.Querier, userID int64) (bool, error)
	// Bindings lists the user's accounts elsewhere, oldest first.
	Bindings(ctx context.Context, q sqldb.Querier, userID int64) ([]Binding, error)
	// Unbind removes one, 5003 "binding" when there is none at the provider.
	Unbind(ctx context.Context, tx *sqldb.Tx, userID int64, provider string) error
}

// SetFactors connects the areas that keep further ways to sign in; until then
// there are passwords alone.
func (s *Service) SetFactors(f Factors) { s.factors = f }

type noFactors struct{}

func (noFactors) HasPasskey(context.Context, sqldb.Querier, int64) (bool, error) { return false, nil }

func (noFactors) Bindings(context.Context, sqldb.Querier, int64) ([]Binding, error) { return nil, nil }

func (noFactors) Unbind(context.Context, *sqldb.Tx, int64, string) error {
	return fault.NotFound("binding")
}

// RequireStepUp admits the caller of ctx to what needs a fresh proof: what takes
// a private key out or lets a device have one, what runs on devices, and what
// decides about ways in (docs/decisions/0020 lists it). A user with a passkey must have used it within the last
// 15 minutes; one without must have entered the password then, or, having none,
// have signed in. Otherwise it is 5034 STEP_UP_REQUIRED. Only people are asked:
// API keys pass (decisions.md sections 2 and 8.7).
func (s *Service) RequireStepUp(ctx context.Context, q sqldb.Querier) error {
	c := access.From(ctx)
	if c == nil {
		return errSession
	}
	if c.Kind != access.KindSession {
		return nil
	}
	fresh := s.now().UnixMilli()-c.AuthTime <= access.ProofAge.Milliseconds()
	if fresh && c.ACR == acrPasskey {
		return nil
	}
	passkey, err := s.factors.HasPasskey(ctx, q, c.UserID)
	if err != nil {
		return err
	}
	if passkey {
		return errNeedsPasskey()
	}
	if fresh && slices.Contains(c.AMR, amrPassword) {
		return nil
	}
	row, err := New(q).userByID(ctx, c.UserID)
	if err != nil {
		return fmt.Errorf("read the caller: %w", err)
	}
	if row.Password != "" {
		return stepUpRequired("This needs your password, entered within the last 15 minutes: POST /auth/step-up.", acrPassword)
	}
	if fresh {
		return nil
	}
	return stepUpRequired("This needs a sign-in within the last 15 minutes; sign in again.", acrPassword)
}

func errNeedsPasskey() error {
	return stepUpRequired("This needs your passkey, used within the last 15 minutes: POST /auth/webauthn/step-up/options.", acrPasskey)
}

func stepUpRequired(what, acr string) error {
	return &fault.Error{Code: fault.CodeStepUpRequired, Key: "STEP_UP_REQUIRED", What: what, Params: map[string]any{"acr": acr}}
}

// Unbind takes an account elsewhere from the caller's ways to sign in. Errors:
// 5003 when none is bound at the provider, 5034 without a fresh proof, 5030 for
// the last way in.
func (s *Service) Unbind(ctx context.Context, provider string) error {
	caller := access.From(ctx)
	if err := s.RequireStepUp(ctx, s.db.Reader()); err != nil {
		return err
	}
	return s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.factors.Unbind(ctx, tx, caller.UserID, provider); err != nil {
			return err
		}
		if err := s.KeepWayIn(ctx, tx, caller.UserID); err != nil {
			return err
		}
		if err := s.TellWayIn(ctx, tx, caller.UserID, "An account elsewhere was unbound", provider); err != nil {
			return err
		}
		return s.audit.Record(ctx, tx, audit.Entry{
			UserID: caller.UserID, Action: "user.unbind", Object: userObject(caller.UserID), Detail: map[string]any{"provider": provider},
		})
	})
}

// KeepWayIn is asked after a passkey or a binding was removed with tx: without
// any other way to sign in it is 5030 CONFLICT, and tx must be rolled back. The
// user is locked until then, so that two removals cannot both succeed.
func (s *Service) KeepWayIn(ctx context.Context, tx *sqldb.Tx, userID int64) error {
	if err := lockUser(ctx, tx, userID); err != nil {
		return fmt.Errorf("lock a user: %w", err)
	}
	user, err := New(tx).userByID(ctx, userID)
	if err != nil {
		return fmt.Errorf("read a user: %w", err)
	}
	if user.Password != "" {
		return nil
	}
	if passkey, err := s.factors.HasPasskey(ctx, tx, userID); passkey || err != nil {
		return err
	}
	bindings, err := s.factors.Bindings(ctx, tx, userID)
	if err != nil {
		return err
	}
	if len(bindings) == 0 {
		return fault.Conflict("This is the last way to sign in to the account; set a password, add a passkey or bind another account first.")
	}
	return nil
}
