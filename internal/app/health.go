package app

import (
	"context"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

type health struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version"`
}

// mountHealth serves GET /health: 200 as soon as the database answers.
func mountHealth(m *web.Mux, db *sqldb.DB, version string) {
	web.Route(m, "GET /health", access.Public(), func(ctx context.Context, _ *struct{}) (health, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := db.Ping(ctx); err != nil {
			return health{}, fault.Unavailable(5*time.Second, "The database does not answer.", err)
		}
		return health{Status: "ok", Version: version}, nil
	})
}
