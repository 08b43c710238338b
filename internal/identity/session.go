package identity

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

const (
	sessionLifetime = 30 * 24 * time.Hour // from the last use
	slideEvery      = time.Hour           // a use is written down at most so often
)

// The names of RFC 8176 and the levels of decisions.md section 2.
const (
	amrPassword = "pwd"
	acrPassword = "aal1"
	acrPasskey  = access.AAL2
)

var errSession = fault.Unauthorized("The session is unknown or has expired; sign in again.")

// Session recognises the session cookie of a request: nil without an error when
// there is none, 5018 when it is not valid (any more). The caller's lists are
// shared and must not be changed.
func (s *Service) Session(r *http.Request) (*access.Caller, error) {
	token := s.cookies.read(r.Header["Cookie"], r.TLS != nil || web.OverTLS(r.Context()))
	if token == "" {
		return nil, nil
	}
	if len(token) != tokenLength {
		return nil, errSession
	}
	ctx := r.Context()
	lookup := ctx
	if s.db.Dialect() == sqldb.SQLite {
		// A read of microseconds from a local file: watching for its
		// cancellation would cost a fifth of it.
		lookup = context.WithoutCancel(ctx)
	}
	row, err := New(s.db.Reader()).sessionByHash(lookup, seal.HashToken(token))
	if err != nil {
		if sqldb.Is(err, sqldb.ErrNotFound) {
			return nil, errSession
		}
		return nil, fmt.Errorf("look up a session: %w", err)
	}
	now := s.now().UnixMilli()
	if row.ExpiresAt <= now {
		return nil, errSession
	}
	if now-row.SeenAt >= slideEvery.Milliseconds() {
		s.slide(ctx, row.ID, row.SeenAt, now)
	}
	caller := &access.Caller{Kind: access.KindSession, UserID: row.UserID, SessionID: row.ID, ACR: row.Acr, AuthTime: row.AuthTime}
	if caller.Roles, err = words(row.Roles); err != nil {
		return nil, err
	}
	if caller.AMR, err = words(row.Amr); err != nil {
		return nil, err
	}
	return caller, nil
}

// slide moves the end of a session. A failure is logged only: reading must work
// while writing does not.
func (s *Service) slide(ctx context.Context, id, seenAt, now int64) {
	if _, busy := s.sliding.LoadOrStore(id, true); busy {
		return
	}
	defer s.sliding.Delete(id)
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		_, err := New(tx).slideSession(ctx, slideSessionParams{ID: id, WasSeenAt: seenAt, Now: now, ExpiresAt: now + sessionLifetime.Milliseconds()})
		return err
	})
	if err != nil {
		s.log.WarnContext(ctx, "a session could not be prolonged", "session_id", id, "error", err)
	}
}

// RefreshSession gives the session of the request's cookie another id and its
// full lifetime, and returns the cookies to send; the former id is dead at once.
// Without a valid session it is 5018.
func (s *Service) RefreshSession(ctx context.Context) ([]*http.Cookie, error) {
	overTLS := web.OverTLS(ctx)
	old := s.cookies.read(web.Cookies(ctx), overTLS)
	if len(old) != tokenLength {
		return nil, errSession
	}
	token := seal.NewToken("", 32)
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		now := s.now().UnixMilli()
		_, err := New(tx).rotateSession(ctx, rotateSessionParams{
			OldHash: seal.HashToken(old), NewHash: seal.HashToken(token), Now: now, ExpiresAt: now + sessionLifetime.Milliseconds(),
		})
		return err
	})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil, errSession
	}
	if err != nil {
		return nil, fmt.Errorf("refresh a session: %w", err)
	}
	return []*http.Cookie{s.cookies.set(token, overTLS)}, nil
}

// newSession makes a session for the user and returns the caller it stands for
// and its token.
func (s *Service) newSession(ctx context.Context, tx *sqldb.Tx, user User, m Method) (*access.Caller, string, error) {
	token := seal.NewToken("", 32)
	amrText, err := wordsText(m.AMR)
	if err != nil {
		return nil, "", err
	}
	now := s.now().UnixMilli()
	id, err := New(tx).insertSession(ctx, insertSessionParams{
		UserID: user.ID, TokenHash: seal.HashToken(token), Amr: amrText, Acr: m.ACR, AuthTime: now,
		Ip: web.ClientIP(ctx), UserAgent: web.UserAgent(ctx),
		CreatedAt: now, SeenAt: now, ExpiresAt: now + sessionLifetime.Milliseconds(),
	})
	if err != nil {
		return nil, "", fmt.Errorf("make a session: %w", err)
	}
	caller := &access.Caller{
		Kind: access.KindSession, UserID: user.ID, SessionID: id, Roles: user.Roles, AMR: m.AMR, ACR: m.ACR, AuthTime: now,
	}
	return caller, token, nil
}

// Logout ends the caller's session, if there is one, and returns the cookie
// that makes the browser forget it.
func (s *Service) Logout(ctx context.Context) (*http.Cookie, error) {
	forget := s.cookies.clear(web.OverTLS(ctx))
	caller := access.From(ctx)
	if caller == nil || caller.SessionID == 0 {
		return forget, nil
	}
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		n, err := New(tx).deleteSession(ctx, deleteSessionParams{ID: caller.SessionID, UserID: caller.UserID})
		if err != nil || n == 0 {
			return err
		}
		return s.audit.Record(ctx, tx, audit.Entry{UserID: caller.UserID, Action: "session.sign_out", Object: sessionObject(caller.SessionID)})
	})
	if err != nil {
		return nil, fmt.Errorf("sign out: %w", err)
	}
	return forget, nil
}

func sessionObject(id int64) string { return fmt.Sprintf("session %d", id) }
