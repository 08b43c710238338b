package identity

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// setupLifetime bounds a setup link; a restart of the server prints another.
const setupLifetime = 24 * time.Hour

// errSetup is the one refusal of a setup token.
var errSetup = fault.Unauthorized("The setup link is used, has expired or is wrong; while there is no administrator, a restart of the server prints another.")

// SetupToken returns the secret of a link with which the first administrator is
// made, or "" when there is one. Other users do not count, lest a stranger's
// keep the operator out.
func (s *Service) SetupToken(ctx context.Context) (string, error) {
	if exists, err := s.anyAdministrator(ctx, s.db.Reader()); err != nil || exists {
		return "", err
	}
	token := seal.NewToken("", 32)
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		return New(tx).insertSetupToken(ctx, insertSetupTokenParams{TokenHash: seal.HashToken(token), CreatedAt: s.now().UnixMilli()})
	})
	if err != nil {
		return "", fmt.Errorf("make a setup link: %w", err)
	}
	return token, nil
}

// Setup makes the first administrator and signs in. It works once, for one of
// the links there are, as long as there is no administrator, whoever else there
// is. Errors:
// 5018 for any other token, 5000 naming what is wrong with the rest, 5030 for an
// address or a name that has a user, 5013 for too many wrong tokens.
func (s *Service) Setup(ctx context.Context, token string, n NewUser) (*SignedIn, error) {
	n.Admin = true
	p, err := n.check()
	if err != nil {
		return nil, err
	}
	valid := func(q sqldb.Querier) error { return s.checkSetup(ctx, q, token) }
	spent, err := s.limiter.Spend(ctx, nil, s.limits.WrongCodesPerAddress.hit(ratelimit.CodesFromAddress, addressKey(ctx)))
	if err != nil {
		return nil, err
	}
	defer spent.Settle()
	if err := valid(s.db.Reader()); err != nil { // before a stranger makes us hash
		if fault.Is(err, fault.CodeUnauthorized) {
			s.audit.Refuse(ctx, audit.Entry{Action: "user.setup_refused", Object: "setup link", Detail: map[string]any{"email": p.Email}})
		}
		return nil, err
	}
	if p.Password, err = s.passwords.hash(ctx, n.Password, nil); err != nil {
		return nil, err
	}
	in := &SignedIn{}
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := valid(tx); err != nil {
			return err
		}
		used, err := New(tx).useSetupToken(ctx, seal.HashToken(token))
		if err != nil {
			return fmt.Errorf("use a setup link: %w", err)
		}
		if used == 0 {
			return errSetup // another was faster
		}
		if _, err := New(tx).deleteSetupTokens(ctx); err != nil {
			return fmt.Errorf("drop setup links: %w", err)
		}
		if p.Email != "" {
			if _, err := New(tx).deleteUnconfirmedUser(ctx, p.Email); err != nil {
				return fmt.Errorf("make way for a user: %w", err)
			}
		}
		id, err := s.insert(ctx, tx, p)
		if err != nil {
			return err
		}
		if err := s.audit.Record(ctx, tx, audit.Entry{UserID: id, Action: "user.setup", Object: userObject(id)}); err != nil {
			return err
		}
		if in.Cookies, in.User, err = s.SignIn(ctx, tx, id, passwordMethod()); err != nil {
			return err
		}
		return spent.GiveBack(ctx, tx)
	})
	if sqldb.Is(err, sqldb.ErrConflict) { // users can be there before the first administrator
		return nil, s.taken(ctx, p.Email, n.Name)
	}
	if err != nil {
		return nil, err
	}
	return in, nil
}

func (s *Service) checkSetup(ctx context.Context, q sqldb.Querier, token string) error {
	if len(token) != tokenLength {
		return errSetup
	}
	created, err := New(q).setupToken(ctx, seal.HashToken(token))
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return errSetup
	}
	if err != nil {
		return fmt.Errorf("look up a setup link: %w", err)
	}
	exists, err := s.anyAdministrator(ctx, q)
	if err != nil {
		return err
	}
	if exists || s.now().UnixMilli()-created > setupLifetime.Milliseconds() {
		return errSetup
	}
	return nil
}

func (s *Service) anyAdministrator(ctx context.Context, q sqldb.Querier) (bool, error) {
	ids, err := New(q).administrators(ctx, 1)
	if err != nil {
		return false, fmt.Errorf("look for administrators: %w", err)
	}
	return len(ids) > 0, nil
}

type setupInput struct {
	Body struct {
		Token    string `json:"token" maxLength:"200" doc:"The secret of the setup link."`
		Email    string `json:"email" doc:"The e-mail address of the administrator."`
		Password string `json:"password" doc:"The password."`
		Name     string `json:"name,omitempty" doc:"A user name, 3 to 64 of A-Z a-z 0-9 . _ -"`
	}
}

// setupPage asks for what postSetup takes.
func setupPage() func(http.ResponseWriter, *http.Request) error {
	document := web.NewDocument([]byte(setupHTML), []byte(setupStyle), []byte(setupScript))
	return func(w http.ResponseWriter, _ *http.Request) error { return document.Serve(w) }
}
