package app

import (
	"context"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/passkeys"
	"certharbor.dev/certharbor/internal/sqldb"
)

// factors are the ways to sign in that identity does not keep itself. It
// implements identity.Factors.
type factors struct{ passkeys *passkeys.Service }

// HasPasskey implements identity.Factors.
func (f factors) HasPasskey(ctx context.Context, q sqldb.Querier, userID int64) (bool, error) {
	return f.passkeys.HasPasskey(ctx, q, userID)
}

// Bindings implements identity.Factors.
func (factors) Bindings(context.Context, sqldb.Querier, int64) ([]identity.Binding, error) {
	return nil, nil
}

// Unbind implements identity.Factors.
func (factors) Unbind(context.Context, *sqldb.Tx, int64, string) error {
	return fault.NotFound("binding")
}
