package devices

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// WaitingKey is another key of a known device, which its owner has to confirm.
// All but the door, the address and the time is the device's own word.
type WaitingKey struct {
	DeviceKeyFP string `json:"device_keyfp_b64" doc:"BLAKE2b-256 of its dev_pk, base64: what a confirmation names."`
	Door        string `json:"door" doc:"How it was registered: registration_code or api_key."`
	Name        string `json:"name"`
	Platform    string `json:"platform"`
	Address     string `json:"address" doc:"The network address that it was registered from."`
	CreatedAt   int64  `json:"created_at" doc:"Unix milliseconds."`
}

func waitingFromRow(r waitingKeyRow) *WaitingKey {
	return &WaitingKey{
		DeviceKeyFP: keyFingerprint(r.PublicKey), Door: r.Door, Name: r.Name, Platform: r.Platform, Address: r.Address, CreatedAt: r.CreatedAt,
	}
}

// keyFingerprint is empty for what is no key.
func keyFingerprint(key []byte) string {
	if len(key) != 32 {
		return ""
	}
	fingerprint := seal.Fingerprint([32]byte(key))
	return base64.StdEncoding.EncodeToString(fingerprint[:])
}

// newKeysPerHour bounds the keys that wait for one device, one after the other:
// each is a letter to its owner.
const newKeysPerHour = 10

// wait keeps the key of the registration, in place of one that waited before,
// with a token family of its own. The device stays as it is.
func (s *Service) wait(ctx context.Context, tx *sqldb.Tx, c checked, e *enrolled) error {
	q, known := New(tx), e.waiting != nil && bytes.Equal(e.waiting.PublicKey, c.publicKey[:])
	if !known {
		hit := ratelimit.Hit{Rule: ratelimit.KeysOfDevice, Key: strconv.FormatInt(e.device.ID, 10), Max: newKeysPerHour, Window: time.Hour}
		if err := s.Limiter.CountIn(ctx, tx, hit); err != nil {
			return err
		}
	}
	e.sessionNo = e.device.Families
	row, err := q.putWaitingKey(ctx, putWaitingKeyParams{
		DeviceID: e.device.ID, PublicKey: c.publicKey[:], SessionNo: e.sessionNo, Door: c.door.String(), Name: c.Name, Platform: c.Platform, Model: c.Model,
		AppVersion: c.AppVersion, Ip: c.IP, UserAgent: c.UserAgent, Address: web.ClientIP(ctx), Now: s.Now().UnixMilli(),
	})
	if err == nil {
		err = q.setFamilies(ctx, setFamiliesParams{Families: e.device.Families, ID: e.device.ID})
	}
	if err != nil {
		return fmt.Errorf("store a waiting key: %w", err)
	}
	e.waiting = &row
	if err := s.pruneFamilies(ctx, tx, *e); err != nil {
		return err
	}
	if !known {
		if err := s.tellOf(ctx, tx, NoticeWaits, e.device, c.Registration); err != nil {
			return err
		}
	}
	return s.Audit.Record(ctx, tx, audit.Entry{
		UserID: e.device.UserID, Action: "device.key_waits", Object: object(e.device.ID),
		Detail: map[string]any{"door": c.door.String(), "device_public_id": e.device.PublicID, "device_keyfp_b64": keyFingerprint(c.publicKey[:])},
	})
}

// rekeyed does what a new key of a device brings with it: no other waits any
// more, what was sealed to the old one is sealed anew, and the owner is told.
func (s *Service) rekeyed(ctx context.Context, tx *sqldb.Tx, r Registration, e *enrolled) error {
	if _, err := New(tx).dropWaitingKey(ctx, e.device.ID); err != nil {
		return fmt.Errorf("drop the waiting key: %w", err)
	}
	e.waiting = nil
	if s.Keys != nil {
		device, err := fromRow(e.device)
		if err == nil {
			err = s.Keys.DeviceKeyChanged(ctx, tx, device)
		}
		if err != nil {
			return fmt.Errorf("tell of the new device key: %w", err)
		}
	}
	return s.tellOf(ctx, tx, NoticeKey, e.device, r)
}

// waitingKey is the key that waits for the device, nil when none does.
func (s *Service) waitingKey(ctx context.Context, q sqldb.Querier, deviceID int64) (*waitingKeyRow, error) {
	row, err := New(q).waitingKey(ctx, deviceID)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil, nil //nolint:nilnil // none waits
	}
	if err != nil {
		return nil, fmt.Errorf("read the waiting key: %w", err)
	}
	return &row, nil
}

// pruneFamilies forgets the tokens of families that ended long ago.
func (s *Service) pruneFamilies(ctx context.Context, tx *sqldb.Tx, e enrolled) error {
	p := pruneFamiliesParams{DeviceID: e.device.ID, Oldest: e.device.Families - keptFamilies, Alive: e.device.SessionNo}
	if e.waiting != nil {
		p.Waiting = e.waiting.SessionNo
	}
	if err := New(tx).pruneFamilies(ctx, p); err != nil {
		return fmt.Errorf("prune token families: %w", err)
	}
	return nil
}
