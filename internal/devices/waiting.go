package devices

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

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
	if err := json.Unmarshal([]byte(login.Scopes), &shown.Scopes); err != nil {
		return WaitingLogin{}, fmt.Errorf("read the scopes of a device login: %w", err)
	}
	return shown, nil
}
