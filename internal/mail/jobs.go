package mail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	"unicode"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	queue  = "mail"
	places = 4 // servers dislike more connections at once

	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
	retention  = 7 * 24 * time.Hour // of what is sent or given up
)

const (
	statusSent   = "SENT"
	statusFailed = "FAILED"
)

type sendArgs struct {
	MailID int64 `json:"mail_id"`
}

// Kind implements jobs.Args.
func (sendArgs) Kind() string { return "mail.send" }

type sweepArgs struct{}

// Kind implements jobs.Args.
func (sweepArgs) Kind() string { return "mail.sweep" }

// Register adds the area's jobs.
func (s *Service) Register(r *jobs.Registry) {
	s.turns = r.QueueByTurns(queue, places)
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, j *jobs.Job[sendArgs]) error { return s.send(ctx, j.Args.MailID) })
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[sweepArgs]) error { return s.sweep(ctx) })
	r.Periodic("mail.sweep", time.Hour, sweepArgs{}, jobs.Options{Unique: true})
}

var errExpired = errors.New("it expired before any attempt succeeded")

// send makes one attempt. What servers do is never an error of the job: it
// snoozes, so that the engine's own retries are left for the database.
func (s *Service) send(ctx context.Context, id int64) error {
	row, err := New(s.DB.Reader()).queuedMail(ctx, id)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil // done by an earlier run
	}
	if err != nil {
		return fmt.Errorf("read mail %d: %w", id, err)
	}
	if s.Now().UnixMilli() >= row.ExpiresAt {
		return s.finish(ctx, row, errExpired)
	}
	// All letters go to one server, so turns are by user alone; those that
	// belong to no user take them by address.
	done, away := s.turns.Enter(ctx, turnOf(row), "")
	if done == nil {
		return jobs.Snooze(away)
	}
	defer done()
	envelope, err := s.open(row)
	if err != nil {
		return err
	}
	err = s.Transport.Send(ctx, envelope)
	if _, permanent := errors.AsType[*PermanentError](err); err == nil || permanent {
		return s.finish(ctx, row, err)
	}
	return s.postpone(ctx, row, err)
}

// turnOf is whose turn the letter takes: a user's, or that of its address.
func turnOf(row queuedMailRow) int64 {
	if row.UserID != 0 {
		return row.UserID
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(row.Recipient)) // never fails
	return -int64(sum.Sum64() >> 1)         //nolint:gosec // fits: one bit less
}

func (s *Service) open(row queuedMailRow) (*Envelope, error) {
	plain, err := s.Keys.Open(place(row.ID), row.BodySealed)
	if err != nil {
		return nil, fmt.Errorf("open mail %d: %w", row.ID, err)
	}
	var b body
	if err := json.Unmarshal(plain, &b); err != nil {
		return nil, fmt.Errorf("decode mail %d: %w", row.ID, err)
	}
	return &Envelope{
		ID: row.ID, Kind: row.Kind, To: row.Recipient, CreatedAt: time.UnixMilli(row.CreatedAt).UTC(), Subject: b.Subject, Text: b.Text, HTML: b.HTML,
	}, nil
}

// finish records the end and erases what the message said.
func (s *Service) finish(ctx context.Context, row queuedMailRow, failure error) error {
	status, text := statusSent, ""
	if failure != nil {
		status, text = statusFailed, printable(failure)
		s.Log.WarnContext(ctx, "mail given up", "mail_id", row.ID, "kind", row.Kind, "to", row.Recipient, "error", text)
	}
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		n, err := New(tx).finishMail(ctx, finishMailParams{Status: status, Error: text, NoBody: []byte{}, Now: s.Now().UnixMilli(), ID: row.ID})
		if err != nil {
			return fmt.Errorf("finish mail %d: %w", row.ID, err)
		}
		if n == 0 || failure == nil {
			return nil
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: row.UserID, Action: "mail.failed", Object: fmt.Sprintf("mail %d", row.ID),
			Detail: map[string]any{"kind": row.Kind, "to": row.Recipient, "error": text},
		})
	})
}

func (s *Service) postpone(ctx context.Context, row queuedMailRow, failure error) error {
	wait := lastRetry
	if row.Attempts < 6 {
		wait = min(firstRetry<<row.Attempts, lastRetry)
	}
	s.Log.WarnContext(ctx, "mail will be tried again", "mail_id", row.ID, "kind", row.Kind, "wait_seconds", int(wait.Seconds()), "error", printable(failure))
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		_, err := New(tx).postponeMail(ctx, postponeMailParams{Error: printable(failure), Now: s.Now().UnixMilli(), ID: row.ID})
		return err
	})
	if err != nil {
		return fmt.Errorf("postpone mail %d: %w", row.ID, err)
	}
	return jobs.Snooze(wait)
}

// sweep deletes what has been sent or given up a week ago.
func (s *Service) sweep(ctx context.Context) error {
	before := s.Now().Add(-retention).UnixMilli()
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		for _, status := range []string{statusSent, statusFailed} {
			if _, err := New(tx).deleteOldMails(ctx, deleteOldMailsParams{Status: status, UpdatedAt: before}); err != nil {
				return fmt.Errorf("sweep mails: %w", err)
			}
		}
		return nil
	})
}

// printable makes one line of what a foreign server said.
func printable(err error) string {
	text := strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, err.Error()), "")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "")
	}
	return text
}
