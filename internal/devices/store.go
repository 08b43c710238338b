package devices

import (
	"fmt"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

func fromRow(r deviceRow) (Device, error) {
	if len(r.PublicKey) != 32 {
		return Device{}, fmt.Errorf("device %d has a public key of %d bytes", r.ID, len(r.PublicKey))
	}
	return Device{
		ID: r.ID, UserID: r.UserID, PublicID: r.PublicID, PublicKey: [32]byte(r.PublicKey), Status: r.Status,
		Name: r.Name, Platform: r.Platform, Model: r.Model, AppVersion: r.AppVersion,
		Agent: r.Agent, AgentVersion: r.AgentVersion, IP: r.Ip, UserAgent: r.UserAgent,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, LastSeenAt: r.LastSeenAt,
	}, nil
}

// found turns a row, or its absence, into a device or the fault.
func found(row deviceRow, err error, operation string) (Device, error) {
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return Device{}, fault.NotFound("device")
	}
	if err != nil {
		return Device{}, fmt.Errorf("%s: %w", operation, err)
	}
	return fromRow(row)
}
