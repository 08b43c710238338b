package identity

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Session is one sign-in of a user that has not ended.
type Session struct {
	ID        int64    `json:"id"`
	Current   bool     `json:"current" doc:"Whether it is the one that asks."`
	AMR       []string `json:"amr" doc:"How the user signed in, RFC 8176 names."`
	ACR       string   `json:"acr" doc:"aal1 after a password, aal2 after a passkey."`
	AuthTime  int64    `json:"auth_time" doc:"Last sign-in or step-up, Unix ms."`
	MFA       bool     `json:"mfa" doc:"Whether the session is at aal2."`
	IP        string   `json:"ip" doc:"Where it was made from."`
	UserAgent string   `json:"user_agent" doc:"What made it."`
	CreatedAt int64    `json:"created_at" doc:"Unix ms."`
	SeenAt    int64    `json:"seen_at" doc:"Last use, to the hour, Unix ms."`
	ExpiresAt int64    `json:"expires_at" doc:"When it ends unless it is used before, Unix ms."`
}

// session reads the record of the caller's session.
func (s *Service) session(ctx context.Context, caller *access.Caller) (Session, error) {
	row, err := New(s.db.Reader()).sessionByID(ctx, sessionByIDParams{ID: caller.SessionID, UserID: caller.UserID})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return Session{}, errSession // ended since the request was admitted
	}
	if err != nil {
		return Session{}, fmt.Errorf("read a session: %w", err)
	}
	return sessionOf(row, caller)
}

func sessionOf(row sessionByIDRow, caller *access.Caller) (Session, error) {
	amr, err := words(row.Amr)
	if err != nil {
		return Session{}, err
	}
	return Session{
		ID: row.ID, Current: row.ID == caller.SessionID, AMR: amr, ACR: row.Acr, AuthTime: row.AuthTime, MFA: row.Acr == acrPasskey,
		IP: row.Ip, UserAgent: row.UserAgent, CreatedAt: row.CreatedAt, SeenAt: row.SeenAt, ExpiresAt: row.ExpiresAt,
	}, nil
}
