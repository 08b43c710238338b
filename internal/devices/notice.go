package devices

import (
	"cmp"
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// NoticeKind is what an owner is told about a device.
type NoticeKind string

// The kinds of notices.
const (
	NoticeNew     NoticeKind = "device-new"     // a device was registered
	NoticeKey     NoticeKind = "device-key"     // a known device has another key from now on
	NoticeWaits   NoticeKind = "device-waits"   // a known device came with another key, which waits for its owner
	NoticeRefresh NoticeKind = "device-refresh" // a token was answered again, to a network address that is new
)

// Notice tells the owner of a device what happened to it.
type Notice struct {
	Kind    NoticeKind
	UserID  int64
	Device  Device
	Address string // network address that the request came from
}

// tell leaves the notice to whoever sends letters, in tx.
func (s *Service) tell(ctx context.Context, tx *sqldb.Tx, n Notice) error {
	if s.Tell == nil {
		return nil
	}
	if err := s.Tell(ctx, tx, n); err != nil {
		return fmt.Errorf("tell the owner of a device: %w", err)
	}
	return nil
}

// tellOf tells the owner of a device that was registered. A key that waits is
// described as it describes itself.
func (s *Service) tellOf(ctx context.Context, tx *sqldb.Tx, kind NoticeKind, row deviceRow, r Registration) error {
	d, err := fromRow(row)
	if err != nil {
		return err
	}
	d.Name, d.Platform = cmp.Or(r.Name, d.Name), cmp.Or(r.Platform, d.Platform)
	return s.tell(ctx, tx, Notice{Kind: kind, UserID: d.UserID, Device: d, Address: web.ClientIP(ctx)})
}
