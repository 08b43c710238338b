package apptest

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Attempt is one successful use of a route with one credential.
type Attempt struct {
	W     *World
	O     *Operation
	R     *Resident
	C     *Caller // the credential
	Actor string  // what it is called in the audit log
	Ids   map[string]string
}

// Call makes the request with the ids of the attempt.
func (a *Attempt) Call(body any) *Answer {
	a.W.T.Helper()
	return a.C.Try(a.O.Method, a.W.Fill(a.O, a.Ids), body)
}

// EntryOf is a row of the audit log that a test asks for.
type EntryOf struct {
	User                  int64
	Actor, Action, Object string
}

// Entries are what the audit log has of the request.
func (p *Program) Entries(db *sqldb.DB, where string, args ...any) (list []EntryOf) {
	p.T.Helper()
	rows, err := db.Reader().QueryContext(context.WithoutCancel(p.T.Context()), "SELECT user_id, actor, action, object FROM audit_log WHERE "+where+" ORDER BY at, seq", args...)
	if err != nil {
		p.T.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e EntryOf
		if err := rows.Scan(&e.User, &e.Actor, &e.Action, &e.Object); err != nil {
			p.T.Fatal(err)
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		p.T.Fatal(err)
	}
	return list
}

// VerifyAudit verifies the program's log as the command does.
func (p *Program) VerifyAudit() *audit.Verified {
	p.T.Helper()
	v, err := app.VerifyAudit(p.T.Context(), p.Config, audit.Verification{})
	if err != nil {
		p.T.Error(err)
	}
	return v
}

// Attempts are one for each kind of credential that the operation takes.
func (w *World) Attempts(db *sqldb.DB, o *Operation) (list []*Attempt) {
	w.T.Helper()
	w.Alice.Caller = w.SessionSince(db, w.Alice, time.Now()) // an earlier one may have ended all sessions
	with := func(c *Caller, actor string) {
		list = append(list, &Attempt{W: w, O: o, R: w.Alice, C: c, Actor: actor, Ids: maps.Clone(w.Alice.Ids)})
	}
	switch {
	case o.Rule.TakesDevice():
		with(w.Alice.Device.Caller, fmt.Sprintf("device %d", w.Alice.Device.ID))
	case o.Rule.TakesNone() && !o.Rule.Recognises():
		with(w.Anonymous(), "anonymous")
	}
	if o.Rule.TakesSession() || o.Rule.Recognises() {
		a := &Attempt{W: w, O: o, R: w.Alice, Ids: maps.Clone(w.Alice.Ids)}
		a.signIn(db)
		list = append(list, a)
	}
	if o.Rule.TakesKey() {
		entries := Everything()
		if strings.HasSuffix(o.Path, "/certificate-assign") {
			entries = []map[string]any{Entry("certificates", w.Alice.Ids["certificate_id"], "read")}
		}
		key := w.Alice.APIKey(entries...)
		with(key.Caller, fmt.Sprintf("key %d", key.ID))
	}
	if len(list) == 0 {
		w.T.Fatalf("%s takes no credential that there is", o.Line())
	}
	return list
}

// Owner is whose log has the session's own entries.
func (a *Attempt) Owner() *Resident {
	if a.O.Rule.TakesAdmins() {
		return a.W.Admin
	}
	return a.R
}

// signIn gives the attempt a session of its own.
func (a *Attempt) signIn(db *sqldb.DB) {
	a.W.T.Helper()
	a.C = a.W.SessionSince(db, a.R, time.Now())
	if a.O.Rule.TakesAdmins() {
		a.C = a.W.SessionWith(db, a.W.Admin, time.Now(), access.AAL2)
	}
	var sessions []struct {
		ID      int64
		Current bool
	}
	a.C.Do("GET", "/apiv1/me/sessions", nil, 200).Data(a.W.T, &sessions)
	for _, s := range sessions {
		if s.Current {
			a.Actor = fmt.Sprintf("session %d", s.ID)
			a.Ids["session_id"] = strconv.FormatInt(s.ID, 10)
		}
	}
}

func (r *Resident) Email(w *World) string {
	if r == w.Alice {
		return "alice@example.org"
	}
	return "bob@example.org"
}
