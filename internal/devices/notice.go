package devices

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

// NoticeKind is what an owner is told about a device.
type NoticeKind string

// The kinds of notices.
const (
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
