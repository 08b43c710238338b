package identity

import (
	"context"
	"fmt"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// ListSessions returns the caller's sessions, newest first, and how many there
// are.
func (s *Service) ListSessions(ctx context.Context, page web.Page) ([]Session, int64, error) {
	caller, now := access.From(ctx), s.now().UnixMilli()
	q := New(s.db.Reader())
	total, err := q.countSessions(ctx, countSessionsParams{UserID: caller.UserID, Now: now})
	if err != nil {
		return nil, 0, fmt.Errorf("count sessions: %w", err)
	}
	rows, err := q.listSessions(ctx, listSessionsParams{UserID: caller.UserID, Now: now, PageStart: page.Offset, PageSize: page.Limit})
	if err != nil {
		return nil, 0, fmt.Errorf("list sessions: %w", err)
	}
	sessions := make([]Session, len(rows))
	for i, row := range rows {
		if sessions[i], err = sessionOf(sessionByIDRow(row), caller); err != nil {
			return nil, 0, err
		}
	}
	return sessions, total, nil
}

// EndSession signs the caller out of one session, on every node at once. 5003
// when the caller has no such session, 5034 when it is another one than the
// caller's own and the proof is not fresh: a stolen session must not throw the
// owner out. The cookie, if any, makes the browser forget a session of its own.
func (s *Service) EndSession(ctx context.Context, id int64) ([]*http.Cookie, error) {
	caller := access.From(ctx)
	if id != caller.SessionID {
		if err := s.RequireStepUp(ctx, s.db.Reader()); err != nil {
			return nil, err
		}
	}
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		n, err := New(tx).deleteSession(ctx, deleteSessionParams{ID: id, UserID: caller.UserID})
		if err != nil {
			return fmt.Errorf("end a session: %w", err)
		}
		if n == 0 {
			return fault.NotFound("session")
		}
		return s.audit.Record(ctx, tx, audit.Entry{UserID: caller.UserID, Action: "session.revoke", Object: sessionObject(id)})
	})
	if err != nil || id != caller.SessionID {
		return nil, err
	}
	return []*http.Cookie{s.cookies.clear(web.OverTLS(ctx))}, nil
}

// EndSessions signs the caller out everywhere, or everywhere else, on every
// node at once. Everywhere else needs a fresh proof (5034), as EndSession does.
func (s *Service) EndSessions(ctx context.Context, keepCurrent bool) ([]*http.Cookie, error) {
	caller := access.From(ctx)
	keep, cookies := int64(0), []*http.Cookie{s.cookies.clear(web.OverTLS(ctx))}
	if keepCurrent {
		if err := s.RequireStepUp(ctx, s.db.Reader()); err != nil {
			return nil, err
		}
		keep, cookies = caller.SessionID, nil
	}
	return cookies, s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		ended, err := New(tx).deleteOtherSessions(ctx, deleteOtherSessionsParams{UserID: caller.UserID, ID: keep})
		if err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
		return s.audit.Record(ctx, tx, audit.Entry{
			UserID: caller.UserID, Action: "session.revoke_all", Object: userObject(caller.UserID), Detail: map[string]any{"sessions_ended": ended},
		})
	})
}
