package app

import (
	"context"
	"log/slog"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
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
		DB: db, Audit: operatorLog(ctx, c, db), Limiter: ratelimit.NewLimiter(db, time.Now), Log: log, Now: time.Now,
	})
	return service, func() { _ = db.Close() }, nil
}

// operatorLog is the audit log in which a command stands as "operator". Without
// the master key a command still reads, but changes nothing.
func operatorLog(ctx context.Context, c Config, db *sqldb.DB) *audit.Log {
	keys, err := openKeyring(ctx, db, c.masterKeyPath())
	if err != nil {
		return audit.Closed(err)
	}
	trail, err := audit.Open(ctx, audit.Deps{DB: db, Keys: keys, Now: time.Now, System: "operator"})
	if err != nil {
		return audit.Closed(err)
	}
	return trail
}
