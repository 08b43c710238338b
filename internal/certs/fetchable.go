package certs

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Fetchable gives for those of the ids that are certificates of the user why the
// device cannot fetch them with their key now, as the end of a sentence that
// begins with the certificate; "" when it can.
func (s *Service) Fetchable(ctx context.Context, q sqldb.Querier, userID, deviceID int64, ids []int64) (map[int64]string, error) {
	found := make(map[int64]string, len(ids))
	for _, id := range ids {
		row, err := New(q).deployable(ctx, deployableParams{DeviceID: deviceID, CertID: id, UserID: userID})
		if sqldb.Is(err, sqldb.ErrNotFound) {
			if _, err := s.Record(ctx, q, userID, id); err == nil {
				found[id] = "is not assigned to the device"
			} else if !fault.Is(err, fault.CodeNotFound) {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("load assigned certificate: %w", err)
		}
		c, err := fromRow(&row.CertificateRow, s.Now())
		if err != nil {
			return nil, err
		}
		_, err = custody(&c, &row.MaterialRow, row.SealedBox != nil).Decide()
		found[id] = hindrance(err)
	}
	return found, nil
}

// hindrance puts the fault of Custody.Decide into words.
func hindrance(err error) string {
	switch {
	case err == nil:
		return ""
	case fault.Is(err, fault.CodeNotIssued):
		return "has not been issued yet"
	case fault.Is(err, fault.CodeNotFound):
		return "has no private key on this server"
	case fault.Is(err, fault.CodeWrapPending):
		return "has a key that is not sealed to the device yet"
	}
	return "keeps its key from devices: its policy is MASTER_ONLY without server_decrypt_export"
}
