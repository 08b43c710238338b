package apptest

import (
	"net/http"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// SignIn gives one more session to somebody who exists.
func (p *Program) SignIn(email string) *Caller {
	p.T.Helper()
	a := p.Anonymous().General(200, "login", email, "password", Password)
	cookie, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
	return &Caller{P: p, Header: http.Header{"Cookie": {cookie}}}
}

// SessionSince makes a session of the resident, who signed in at that time.
func (p *Program) SessionSince(db *sqldb.DB, r *Resident, signIn time.Time) *Caller {
	p.T.Helper()
	return p.SessionWith(db, r, signIn, "aal1")
}

// SessionWith makes a session of the level.
func (p *Program) SessionWith(db *sqldb.DB, r *Resident, signIn time.Time, acr string) *Caller {
	p.T.Helper()
	token, now := seal.NewToken("", 32), time.Now().UnixMilli()
	_, err := db.Writer().ExecContext(p.T.Context(), `INSERT INTO sessions (user_id, token_hash, amr, acr, auth_time, ip, user_agent, created_at, seen_at, expires_at)
		VALUES ($1, $2, '["pwd"]', $3, $4, '', '', $5, $6, $7)`, r.UserID, seal.HashToken(token), acr, signIn.UnixMilli(), now, now, now+3_600_000)
	if err != nil {
		p.T.Fatal(err)
	}
	return &Caller{P: p, Header: http.Header{"Cookie": {p.Config.SessionCookie + "=" + token}}, UserID: r.UserID}
}
