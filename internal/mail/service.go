package mail

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/mail"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Transport takes messages away.
type Transport interface {
	// Send returns when the message is taken. A *PermanentError says that no
	// further attempt will succeed; any other error that one may.
	Send(ctx context.Context, e *Envelope) error
}

// Envelope is a message ready to go.
type Envelope struct {
	ID        int64
	Kind      string // what it is for, for example "reset-code"
	To        string
	CreatedAt time.Time
	Subject   string
	Text      string
	HTML      string
}

// PermanentError says that a message will never be taken.
type PermanentError struct{ Err error }

// Error implements error.
func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PermanentError) Unwrap() error { return e.Err }

// Inserter is what the area needs of the job engine.
type Inserter interface {
	Insert(ctx context.Context, tx *sqldb.Tx, args jobs.Args, options jobs.Options) error
}

// Deps are what a Service needs. All are required.
type Deps struct {
	DB        *sqldb.DB
	Audit     *audit.Log
	Keys      *seal.Keyring
	Transport Transport
	Log       *slog.Logger
	Now       func() time.Time
}

// Service sends e-mail. Make one with NewService.
type Service struct {
	Deps
	jobs  Inserter
	turns *jobs.Turns
}

// NewService returns the area's service; UseJobs completes it.
func NewService(d Deps) *Service { return &Service{Deps: d, turns: jobs.NewTurns(places)} }

// UseJobs sets the engine, which can only be made after Register.
func (s *Service) UseJobs(j Inserter) { s.jobs = j }

// Message is what Enqueue takes.
type Message struct {
	UserID int64  // whom it concerns, 0: no user
	Kind   string // what it is for, a word for the log
	To     string // a bare address
	Letter Letter
	TTL    time.Duration // how long it is worth sending
}

// Enqueue writes the message with tx: it will be sent when tx commits.
func (s *Service) Enqueue(ctx context.Context, tx *sqldb.Tx, m Message) error {
	if _, err := mail.ParseAddress(m.To); err != nil {
		return fmt.Errorf("enqueue mail: the recipient: %w", err)
	}
	letter, err := m.Letter.render()
	if err != nil {
		return err
	}
	plain, err := json.Marshal(letter)
	if err != nil {
		return fmt.Errorf("enqueue mail: %w", err)
	}
	now := s.Now()
	id, err := New(tx).insertMail(ctx, insertMailParams{
		UserID: m.UserID, Kind: m.Kind, Recipient: m.To, BodySealed: []byte{}, Now: now.UnixMilli(), ExpiresAt: now.Add(m.TTL).UnixMilli(),
	})
	if err != nil {
		return fmt.Errorf("enqueue mail: %w", err)
	}
	sealed, err := s.Keys.Seal(place(id), plain)
	if err != nil {
		return fmt.Errorf("enqueue mail: %w", err)
	}
	if err := New(tx).setBody(ctx, setBodyParams{BodySealed: sealed, ID: id}); err != nil {
		return fmt.Errorf("enqueue mail: %w", err)
	}
	return s.jobs.Insert(ctx, tx, sendArgs{MailID: id}, jobs.Options{Queue: queue})
}

func place(id int64) seal.Place { return seal.Place{Table: "mails", Row: id, Column: "body_sealed"} }
