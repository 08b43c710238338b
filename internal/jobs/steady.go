package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// leap is by how much the time moves between two hourly sweeps when somebody
	// set the clock, or nothing ran meanwhile.
	leap = 25 * time.Hour
	// settle is how long a clock that has leapt must stay as it is until what it
	// says has expired is deleted.
	settle = 24 * time.Hour
)

// pace is what the sweep before saw, in Unix ms.
type pace struct {
	Last  int64 `json:"last"`
	Until int64 `json:"until"` // nothing is deleted before
}

// Steady tells a sweep that is about to delete what has expired whether it may:
// not within a day after the clock has leapt ahead. A clock that is wrong by a
// year and set right within the day costs nobody a session. name is the sweep's,
// which asks once per run, in its transaction.
func Steady(ctx context.Context, tx *sqldb.Tx, name string, now time.Time) (bool, error) {
	var p pace
	var stored []byte
	row := "steady " + name
	err := tx.QueryRowContext(ctx, "SELECT value FROM settings WHERE name = $1", row).Scan(&stored)
	switch {
	case sqldb.Is(err, sqldb.ErrNotFound):
		p.Last = now.UnixMilli() // the first sweep of all: nothing is known, and nothing is old
	case err != nil:
		return false, fmt.Errorf("read the pace of %s: %w", name, err)
	default:
		if err := json.Unmarshal(stored, &p); err != nil {
			return false, fmt.Errorf("read the pace of %s: %w", name, err)
		}
	}
	switch passed := now.Sub(time.UnixMilli(p.Last)); {
	case passed > leap:
		p.Until = now.Add(settle).UnixMilli()
	case passed < 0: // set back: what expired ahead of time has not
		p.Until = 0
	}
	p.Last = now.UnixMilli()
	if stored, err = json.Marshal(p); err != nil {
		return false, fmt.Errorf("write the pace of %s: %w", name, err)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", row, stored)
	if err != nil {
		return false, fmt.Errorf("write the pace of %s: %w", name, err)
	}
	return now.UnixMilli() >= p.Until, nil
}
