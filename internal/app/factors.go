package app

import (
	"context"

	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/passkeys"
	"certharbor.dev/certharbor/internal/providers"
	"certharbor.dev/certharbor/internal/sqldb"
)

// factors are the ways to sign in that identity does not keep itself. It
// implements identity.Factors.
type factors struct {
	passkeys  *passkeys.Service
	providers *providers.Service
}

// HasPasskey implements identity.Factors.
func (f factors) HasPasskey(ctx context.Context, q sqldb.Querier, userID int64) (bool, error) {
	return f.passkeys.HasPasskey(ctx, q, userID)
}

// Bindings implements identity.Factors.
func (f factors) Bindings(ctx context.Context, q sqldb.Querier, userID int64) ([]identity.Binding, error) {
	return f.providers.Bindings(ctx, q, userID)
}

// Unbind implements identity.Factors.
func (f factors) Unbind(ctx context.Context, tx *sqldb.Tx, userID int64, provider string) error {
	return f.providers.Unbind(ctx, tx, userID, provider)
}
