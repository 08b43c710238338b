package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Reading returns a Log that only reads, which takes no key.
func Reading(db *sqldb.DB) *Log { return &Log{db: db, closed: errors.New("it was opened for reading")} }

// AdminRecord is an entry as an administrator reads it.
type AdminRecord struct {
	UserID int64 `json:"user_id" doc:"Whose log it is in; 0: it belongs to no user."`
	Chain  int64 `json:"chain" doc:"Which of the chains of user 0; numbers are counted in each."`
	Record
}

// Record is an entry as its owner reads it.
type Record struct {
	ID        int64          `json:"id" doc:"Its number in the log, from 1 without gaps."`
	At        int64          `json:"at" doc:"When, Unix ms."`
	Actor     string         `json:"actor" doc:"Who: session, key, device or administrator with its id; anonymous, operator (a command) or system (background work)."`
	Action    string         `json:"action" doc:"What, for example certificate.export."`
	Object    string         `json:"object" doc:"To what, for example certificate 12."`
	Detail    map[string]any `json:"detail" doc:"Further facts."`
	RequestID string         `json:"request_id" doc:"The X-Request-Id of the request, or empty."`
	IP        string         `json:"ip" doc:"The address that the request came from, or empty."`
	UserAgent string         `json:"user_agent" doc:"What the client called itself, at most 200 bytes, or empty."`
}

// Filter says which entries are listed. The zero value lists all.
type Filter struct {
	Action string // exactly this one, "": any
	Since  int64  // at or after, Unix ms; 0: from the beginning
	Until  int64  // before, Unix ms; 0: to the end
}

const (
	listSQL = `SELECT lane, seq, at, actor, action, object, detail, request_id, ip, user_agent FROM audit_log
WHERE user_id = $1 AND at >= $2 AND at < $3 ORDER BY at DESC, seq DESC LIMIT $4 OFFSET $5`
	listActionSQL = `SELECT lane, seq, at, actor, action, object, detail, request_id, ip, user_agent FROM audit_log
WHERE user_id = $1 AND action = $2 AND at >= $3 AND at < $4 ORDER BY at DESC, seq DESC LIMIT $5 OFFSET $6`
	countNobodySQL = `SELECT COALESCE(SUM(seq), 0) FROM audit_heads WHERE user_id = $1`
	countSQL       = `SELECT COUNT(*) FROM audit_log WHERE user_id = $1 AND at >= $2 AND at < $3`
	countActionSQL = `SELECT COUNT(*) FROM audit_log WHERE user_id = $1 AND action = $2 AND at >= $3 AND at < $4`
)

// List returns a page of the user's log, newest first, and how many entries the
// filter admits.
func (l *Log) List(ctx context.Context, userID int64, f Filter, page web.Page) ([]Record, int64, error) {
	list, total, err := l.ListAll(ctx, userID, f, page)
	records := make([]Record, len(list))
	for i := range list {
		records[i] = list[i].Record
	}
	return records, total, err
}

// ListAll is List with what an administrator sees; user 0 is nobody.
func (l *Log) ListAll(ctx context.Context, userID int64, f Filter, page web.Page) (records []AdminRecord, total int64, err error) {
	if f.Until == 0 {
		f.Until = math.MaxInt64
	}
	if total, err = l.count(ctx, userID, f); err != nil {
		return nil, 0, fmt.Errorf("count the audit log: %w", err)
	}
	query, args := listSQL, []any{userID, f.Since, f.Until, page.Limit, page.Offset}
	if f.Action != "" {
		query, args = listActionSQL, []any{userID, f.Action, f.Since, f.Until, page.Limit, page.Offset}
	}
	rows, err := l.db.Reader().QueryContext(ctx, query, args...)
	if err != nil {
		return nil, 0, fmt.Errorf("list the audit log: %w", err)
	}
	defer rows.Close()
	for left := page.Bytes(); left > 0 && rows.Next(); {
		r := AdminRecord{UserID: userID}
		var detail string
		if err := rows.Scan(&r.Chain, &r.ID, &r.At, &r.Actor, &r.Action, &r.Object, &detail, &r.RequestID, &r.IP, &r.UserAgent); err != nil {
			return nil, 0, fmt.Errorf("list the audit log: %w", err)
		}
		decoder := json.NewDecoder(strings.NewReader(detail))
		decoder.UseNumber() // ids are not floats
		if err := decoder.Decode(&r.Detail); err != nil {
			return nil, 0, fmt.Errorf("detail of entry %d of user %d: %w", r.ID, userID, err)
		}
		left -= 500 + len(detail) + len(r.Object) + len(r.UserAgent)
		records = append(records, r)
	}
	return records, total, rows.Err()
}

// count counts what the filter admits. All entries are as many as the head
// says, however many they are: none is ever removed.
func (l *Log) count(ctx context.Context, userID int64, f Filter) (total int64, err error) {
	q := l.db.Reader()
	switch {
	case f.Action == "" && f.Since == 0 && f.Until == math.MaxInt64:
		if userID == 0 {
			err = q.QueryRowContext(ctx, countNobodySQL, userID).Scan(&total)
			return total, err
		}
		h, err := readHead(ctx, q, chain{user: userID})
		return max(h.seq, 0), err
	case f.Action == "":
		err = q.QueryRowContext(ctx, countSQL, userID, f.Since, f.Until).Scan(&total)
	default:
		err = q.QueryRowContext(ctx, countActionSQL, userID, f.Action, f.Since, f.Until).Scan(&total)
	}
	return total, err
}

// Last is when the user's newest entry of the action was made, 0 for none.
func (l *Log) Last(ctx context.Context, userID int64, action string) (int64, error) {
	records, _, err := l.ListAll(ctx, userID, Filter{Action: action}, web.Page{Limit: 1})
	if err != nil || len(records) == 0 {
		return 0, err
	}
	return records[0].At, nil
}
