package certs

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/sqldb"
)

// custody is what the answer to a device depends on. The materials that a device
// fetches and the signal that sends it to fetch them are decided by this alone:
// an agent drops the rest of a batch when it cannot get what a signal names.
func custody(c *Certificate, m *materialRow, wrapped bool) Custody {
	return Custody{
		Policy: c.Policy, ServerDecryptExport: c.ServerDecryptExport, Issued: m.ChainPem != "", HasKey: m.KeyCiphertext != nil,
		WrappedForDevice: wrapped,
	}
}

// announce emits cert.updated to those of the devices that can fetch the
// certificate with its key now. The others are told when that begins.
func (s *Service) announce(ctx context.Context, tx *sqldb.Tx, c *Certificate, m *materialRow, devices []assignee) error {
	for i := range devices {
		wrapped := devices[i].keyFP != nil
		if _, err := custody(c, m, wrapped).Decide(); err != nil {
			continue
		}
		ref := feed.CertRef{CertID: c.ID, Serial: c.SerialNumber}
		if wrapped && c.Policy.WrapsForDevices() {
			ref = ref.WrappedWith(base64Text(devices[i].keyFP))
		}
		if err := s.Feed.Append(ctx, tx, devices[i].deviceID, feed.CertUpdated(ref)); err != nil {
			return fmt.Errorf("signal cert.updated: %w", err)
		}
	}
	return nil
}
