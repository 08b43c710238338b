package devices

import (
	"cmp"
	"database/sql"
	"fmt"
	"time"
)

// insert is the row of a new device.
func (c checked) insert(now time.Time) insertDeviceParams {
	return insertDeviceParams{
		UserID: c.UserID, PublicID: c.publicID, PublicKey: c.publicKey[:], Name: cmp.Or(c.Name, c.nameFor()),
		Platform: c.Platform, Model: c.Model, AppVersion: c.AppVersion, Ip: c.IP, UserAgent: c.UserAgent, Now: now.UnixMilli(),
	}
}

// update is the row of a known device that registers again: an empty member
// counts as absent, the next token family begins.
func (c checked) update(d deviceRow, now time.Time) updateDeviceParams {
	return updateDeviceParams{
		ID: d.ID, PublicKey: c.publicKey[:], SessionNo: d.Families, Families: d.Families, Name: cmp.Or(c.Name, d.Name),
		Platform: cmp.Or(c.Platform, d.Platform), Model: cmp.Or(c.Model, d.Model), AppVersion: cmp.Or(c.AppVersion, d.AppVersion),
		Ip: cmp.Or(c.IP, d.Ip), UserAgent: cmp.Or(c.UserAgent, d.UserAgent), Now: now.UnixMilli(),
	}
}

func ms(t time.Time) sql.NullInt64 { return sql.NullInt64{Int64: t.UnixMilli(), Valid: true} }

// object names a device in the audit log.
func object(id int64) string { return fmt.Sprintf("device %d", id) }

func valid(id int64) sql.NullInt64 { return sql.NullInt64{Int64: id, Valid: true} }
