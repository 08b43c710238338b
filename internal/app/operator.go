package app

import (
	"context"
	"log/slog"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/ratelimit"
)

// Users opens the users of the settings' database for an operator command. It
// works whether the server runs or not. Call the returned function at the end.
func Users(ctx context.Context, c Config) (*identity.Service, func(), error) {
	log := slog.New(slog.DiscardHandler)
	db, err := OpenDatabase(ctx, c, log)
	if err != nil {
		return nil, nil, err
	}
	service := identity.NewService(identity.Deps{
		DB: db, Audit: audit.New(time.Now), Limiter: ratelimit.NewLimiter(db, time.Now), Log: log, Now: time.Now,
	})
	return service, func() { _ = db.Close() }, nil
}
