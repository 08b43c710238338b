package app

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Users opens the users of the settings' database for an operator command. It
// works whether the server runs or not. Call the returned function at the end.
func Users(ctx context.Context, c Config) (*identity.Service, func(), error) {
	log := slog.New(slog.DiscardHandler)
	db, err := OpenDatabase(ctx, c, log)
	if err != nil {
		return nil, nil, err
	}
	deps := identity.Deps{
		DB: db, Audit: operatorLog(ctx, c, db), Limiter: ratelimit.NewLimiter(db, time.Now), Log: log, Now: time.Now, BaseURL: c.PublicURL(),
	}
	if letters := operatorMail(ctx, c, db, log); letters != nil {
		deps.Mail = letters
	}
	return identity.NewService(deps), func() { _ = db.Close() }, nil
}

// operatorMail writes letters that a server sends, or is nil without the master
// key, which seals them.
func operatorMail(ctx context.Context, c Config, db *sqldb.DB, log *slog.Logger) *mail.Service {
	keys, err := openKeyring(ctx, db, c.masterKeyPath())
	if err != nil {
		return nil
	}
	letters, registry := mail.NewService(mail.Deps{DB: db, Keys: keys, Log: log, Now: time.Now}), jobs.NewRegistry()
	letters.Register(registry)
	engine, err := jobs.New(ctx, db, registry, log)
	if err != nil {
		return nil
	}
	letters.UseJobs(engine)
	return letters
}

// VerifyAudit verifies the audit log of the settings' database, whether the
// server runs or not. What is wrong with it is an *audit.Problem.
func VerifyAudit(ctx context.Context, c Config, v audit.Verification) (*audit.Verified, error) {
	log := slog.New(slog.DiscardHandler)
	db, err := OpenDatabase(ctx, c, log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	trail := operatorLog(ctx, c, db)
	v.Users = userIDs(db, trail)
	return trail.Verify(ctx, v)
}

// ListAudit returns the newest entries, newest first: of a user, named by id or
// address, or of nobody ("").
func ListAudit(ctx context.Context, c Config, user string, f audit.Filter, limit int64) ([]audit.AdminRecord, error) {
	log := slog.New(slog.DiscardHandler)
	db, err := OpenDatabase(ctx, c, log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	var id int64
	if user != "" {
		// The log of a user who was deleted is still there, by the id.
		if id, err = strconv.ParseInt(user, 10, 64); err != nil {
			found, err := identity.NewService(identity.Deps{DB: db, Log: log, Now: time.Now}).FindUser(ctx, user)
			if err != nil {
				return nil, err
			}
			id = found.ID
		}
	}
	records, _, err := audit.Reading(db).ListAll(ctx, id, f, web.Page{Limit: limit})
	return records, err
}

// AcceptAudit takes the audit log of the settings' database as it is for the
// log from now on; reason is recorded.
func AcceptAudit(ctx context.Context, c Config, reason string) (*audit.Accepted, error) {
	db, err := OpenDatabase(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	keys, err := openKeyring(ctx, db, c.masterKeyPath())
	if err != nil {
		return nil, err
	}
	return audit.Accept(ctx, auditDeps(c, db, keys), reason, userIDs(db, nil))
}

func auditDeps(c Config, db *sqldb.DB, keys *seal.Keyring) audit.Deps {
	return audit.Deps{DB: db, Keys: keys, Now: time.Now, System: "operator", Stamp: c.auditStampPath(), Used: identity.AnyIn}
}

// userIDs lists the ids of users for the audit log, which has one for each.
func userIDs(db *sqldb.DB, trail *audit.Log) func(ctx context.Context, after, limit int64) ([]int64, error) {
	users := identity.NewService(identity.Deps{DB: db, Audit: trail, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	return func(ctx context.Context, after, limit int64) (ids []int64, err error) {
		list, err := users.ListUsers(ctx, after, limit)
		for _, u := range list {
			ids = append(ids, u.ID)
		}
		return ids, err
	}
}

// operatorLog is the audit log in which a command stands as "operator". Without
// the master key a command still reads, but changes nothing.
func operatorLog(ctx context.Context, c Config, db *sqldb.DB) *audit.Log {
	keys, err := openKeyring(ctx, db, c.masterKeyPath())
	if err != nil {
		return audit.Closed(fmt.Errorf("it takes the server's master key (--data or --master-key-file): %w", err))
	}
	trail, err := audit.Open(ctx, auditDeps(c, db, keys))
	if err != nil {
		return audit.Closed(err)
	}
	return trail
}
