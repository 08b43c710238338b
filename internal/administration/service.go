package administration

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Part is a kind of what users own, as another area keeps it.
type Part struct {
	Name string // as in the answer, for example "certificates"
	// Count counts the user's; nil: it is not shown.
	Count func(ctx context.Context, q sqldb.Querier, userID int64) (int64, error)
	// Erase deletes at most limit of each kind and reports whether there may be
	// more.
	Erase func(ctx context.Context, tx *sqldb.Tx, userID, limit int64) (more bool, err error)
}

// Renewals are the certificates' renewals of a user.
type Renewals interface {
	HoldRenewals(ctx context.Context, tx *sqldb.Tx, userID int64) error
	ResumeRenewals(ctx context.Context, tx *sqldb.Tx, userID int64) error
}

// Deps are what the area needs. All are required.
type Deps struct {
	DB       *sqldb.DB
	Audit    *audit.Log
	Identity *identity.Service
	Log      *slog.Logger
	Now      func() time.Time
	Parts    []Part
	Renewals Renewals
	// Deactivate ends the user's accounts at their CAs.
	Deactivate func(ctx context.Context, userID int64) error
	BaseURL    string // the public address of this server, for letters
}

// Service is the area's rules. Make one with NewService.
type Service struct{ Deps }

// NewService returns the area's service.
func NewService(d Deps) *Service { return &Service{d} }

// Looked is a user as administrators see one.
type Looked struct {
	identity.User
	LastSignInAt int64            `json:"last_sign_in_at" doc:"Unix ms, 0: never."`
	DeleteAt     int64            `json:"delete_at" doc:"When the user will be deleted, Unix ms, 0: not."`
	Owns         map[string]int64 `json:"owns" doc:"How many of each kind the user has."`
}

// ListUsers returns the users of the page that the filter admits, in the order
// of their ids, and how many it admits.
func (s *Service) ListUsers(ctx context.Context, f identity.UserFilter, page web.Page) ([]identity.User, int64, error) {
	return s.Identity.SearchUsers(ctx, f, page)
}

// Look returns the user with what the user owns; 5003 when there is none.
func (s *Service) Look(ctx context.Context, id int64) (Looked, error) {
	user, err := s.Identity.User(ctx, id)
	if err != nil {
		return Looked{}, err
	}
	looked := Looked{User: user, Owns: map[string]int64{}}
	if looked.LastSignInAt, err = s.Audit.Last(ctx, id, "session.sign_in"); err != nil {
		return Looked{}, err
	}
	d, err := readDeletion(ctx, s.DB.Reader(), id)
	if err != nil {
		return Looked{}, err
	}
	looked.DeleteAt = d.deleteAt
	for _, part := range s.Parts {
		if part.Count == nil {
			continue
		}
		if looked.Owns[part.Name], err = part.Count(ctx, s.DB.Reader(), id); err != nil {
			return Looked{}, fmt.Errorf("count the %s of user %d: %w", part.Name, id, err)
		}
	}
	return looked, nil
}

// Change changes the role and the status of a user, and lets one in who waits
// for an administrator. Errors: those of
// identity.ChangeUser.
func (s *Service) Change(ctx context.Context, id int64, c identity.UserChange) (Looked, error) {
	if c.Admin == nil && c.Disabled == nil {
		return Looked{}, fault.Invalid("", "roles or status is required")
	}
	user, err := s.Identity.User(ctx, id)
	if err != nil {
		return Looked{}, err
	}
	if d, err := readDeletion(ctx, s.DB.Reader(), id); err != nil || d.userID != 0 && c.Disabled != nil && !*c.Disabled {
		if err == nil {
			err = fault.Conflict("The user is to be deleted; cancel that first: POST …/cancel-deletion.")
		}
		return Looked{}, err
	}
	if user.Status == identity.StatusPending && c.Disabled != nil && !*c.Disabled {
		if err := s.Identity.Approve(ctx, id); err != nil {
			return Looked{}, err
		}
	}
	if _, err := s.Identity.ChangeUser(ctx, id, c); err != nil {
		return Looked{}, err
	}
	return s.Look(ctx, id)
}

// Create invites a user. Errors: those of identity.Invite.
func (s *Service) Create(ctx context.Context, n identity.NewUser) (Looked, error) {
	user, err := s.Identity.Invite(ctx, n)
	if err != nil {
		return Looked{}, err
	}
	return s.Look(ctx, user.ID)
}
