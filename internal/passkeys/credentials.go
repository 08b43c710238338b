package passkeys

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Passkeys lists the caller's passkeys, newest first.
func (s *Service) Passkeys(ctx context.Context) ([]Passkey, error) {
	rows, err := New(s.db.Reader()).passkeysOf(ctx, access.From(ctx).UserID)
	if err != nil {
		return nil, fmt.Errorf("list passkeys: %w", err)
	}
	list := make([]Passkey, 0, len(rows))
	for _, r := range rows {
		list = append(list, r.passkey())
	}
	return list, nil
}

// Remove deletes one of the caller's passkeys. Errors: 5003 when there is none
// of that id, 5034 without a fresh proof, 5030 when it is the last way in.
func (s *Service) Remove(ctx context.Context, id int64) error {
	caller := access.From(ctx)
	return s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.identity.RequireStepUp(ctx, tx); err != nil {
			return err
		}
		name, err := New(tx).deletePasskey(ctx, deletePasskeyParams{ID: id, UserID: caller.UserID})
		if sqldb.Is(err, sqldb.ErrNotFound) {
			return fault.NotFound("credential")
		}
		if err != nil {
			return fmt.Errorf("delete a passkey: %w", err)
		}
		if err := s.identity.KeepWayIn(ctx, tx, caller.UserID); err != nil {
			return err
		}
		if err := s.identity.TellWayIn(ctx, tx, caller.UserID, "A passkey was removed", name); err != nil {
			return err
		}
		return s.audit.Record(ctx, tx, audit.Entry{
			UserID: caller.UserID, Action: "passkey.remove", Object: object(id), Detail: map[string]any{"name": name},
		})
	})
}

// HasPasskey reports whether the user has a passkey: part of identity.Factors.
func (s *Service) HasPasskey(ctx context.Context, q sqldb.Querier, userID int64) (bool, error) {
	n, err := New(q).countPasskeys(ctx, userID)
	if err != nil {
		return false, fmt.Errorf("count passkeys: %w", err)
	}
	return n > 0, nil
}
