package devices

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// WaitingLogin is what somebody who is to approve a device should know of it
// (RFC 8628 section 5.4). Everything but the address is the device's own word.
type WaitingLogin struct {
	UserCode  string   `json:"user_code"`
	Status    string   `json:"status" enum:"pending,approved,denied"`
	Name      string   `json:"name" doc:"What the device calls itself; may be empty."`
	Platform  string   `json:"platform" doc:"What it says that it runs on; may be empty."`
	Scopes    []string `json:"scopes" doc:"What it asks for; empty: to be a device of the user."`
	ClientIP  string   `json:"client_ip" doc:"The network address that it asked from."`
	UserAgent string   `json:"user_agent" doc:"The program that it asked with; may be empty."`
	CreatedAt int64    `json:"created_at" doc:"When it asked, Unix ms."`
	ExpiresAt int64    `json:"expires_at" doc:"When the code ends, Unix ms."`

	DevicePublicID string `json:"device_public_id" doc:"What it will register as; empty: it does not say."`
	DeviceID       int64  `json:"device_id" doc:"The device of yours that is known by it; 0: none is."`
	KeyChanged     bool   `json:"key_changed" doc:"That device has another key now than it brings."`
}

// WaitingLogin returns the device login behind the code, while it can be
// decided and after this user did. Any other code is 5000 and counted, as in
// VerifyLogin.
func (s *Service) WaitingLogin(ctx context.Context, userID int64, userCode string) (WaitingLogin, error) {
	code, err := parseUserCode(userCode)
	if err != nil {
		return WaitingLogin{}, err
	}
	spent, err := s.guess(ctx)
	if err != nil {
		return WaitingLogin{}, err
	}
	defer spent.Settle()
	login, err := New(s.DB.Reader()).loginByUserCode(ctx, seal.HashToken(code))
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return WaitingLogin{}, fmt.Errorf("read device login: %w", err)
	}
	decided := login.Status != loginPending
	if err != nil || login.ExpiresAt <= s.Now().UnixMilli() || decided && login.UserID != valid(userID) {
		return WaitingLogin{}, s.refuseCode(ctx, errWrongUserCode)
	}
	if err := s.known(ctx, spent); err != nil {
		return WaitingLogin{}, err
	}
	shown := WaitingLogin{
		UserCode: code, Status: strings.ToLower(login.Status), Name: login.Name, Platform: login.Platform, Scopes: []string{},
		ClientIP: login.ClientIp, UserAgent: login.UserAgent, CreatedAt: login.CreatedAt, ExpiresAt: login.ExpiresAt,
	}
	if err := s.recognise(ctx, userID, login, &shown); err != nil {
		return WaitingLogin{}, err
	}
	if err := json.Unmarshal([]byte(login.Scopes), &shown.Scopes); err != nil {
		return WaitingLogin{}, fmt.Errorf("read the scopes of a device login: %w", err)
	}
	return shown, nil
}

// recognise finds the device of the user that a login is for.
func (s *Service) recognise(ctx context.Context, userID int64, login loginRow, shown *WaitingLogin) error {
	if shown.DevicePublicID = login.PublicID; login.PublicID == "" {
		return nil
	}
	d, err := s.GetByPublicID(ctx, s.DB.Reader(), userID, login.PublicID)
	if fault.Is(err, fault.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	shown.DeviceID, shown.KeyChanged = d.ID, login.PublicKey != nil && !bytes.Equal(login.PublicKey, d.PublicKey[:])
	return nil
}
