package certs

import (
	"context"

	"certharbor.dev/certharbor/internal/sqldb"
)

// signals gives the types and refs of a device's stream, oldest first, and
// forgets them.
func (e *env) signals(deviceID int64) []string {
	e.t.Helper()
	rows, err := e.db.Writer().QueryContext(context.Background(), "SELECT type, ref FROM feed_entries WHERE device_id = $1 ORDER BY ms", deviceID)
	if err != nil {
		e.t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var kind, ref string
		if err := rows.Scan(&kind, &ref); err != nil {
			e.t.Fatal(err)
		}
		all = append(all, kind+" "+ref)
	}
	if err := rows.Err(); err != nil {
		e.t.Fatal(err)
	}
	_ = rows.Close()
	e.exec("DELETE FROM feed_entries WHERE device_id = $1", deviceID)
	return all
}

// fakeIssuer records what it is asked for.
type fakeIssuer struct {
	started  []int64
	verified []int64
	revoked  [][]byte
	err      error
	during   func() // runs while the CA is asked to revoke
}

func (f *fakeIssuer) Start(_ context.Context, _, certID int64, _ string) error {
	f.started = append(f.started, certID)
	return f.err
}

func (f *fakeIssuer) VerifyDomain(_ context.Context, _ *sqldb.Tx, c Certificate) error {
	f.verified = append(f.verified, c.ID)
	return f.err
}

func (f *fakeIssuer) Revoke(_ context.Context, _ Certificate, leaf []byte, _ int) error {
	f.revoked = append(f.revoked, leaf)
	if f.during != nil {
		f.during()
	}
	return f.err
}
