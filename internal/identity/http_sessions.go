package identity

import (
	"context"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

func (s *Service) listSessions(ctx context.Context, in *struct{ web.Page }) (*web.Reply[[]Session], error) {
	sessions, total, err := s.ListSessions(ctx, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(sessions, total, in.Page), nil
}

type sessionInput struct {
	ID int64 `path:"session_id" doc:"The session's id."`
}

func (s *Service) deleteSession(ctx context.Context, in *sessionInput) (*web.Reply[web.None], error) {
	cookies, err := s.EndSession(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return noContent(cookies...), nil
}

type sessionsInput struct {
	KeepCurrent bool `query:"keep_current" doc:"Leave the session that asks signed in."`
}

func (s *Service) deleteSessions(ctx context.Context, in *sessionsInput) (*web.Reply[web.None], error) {
	cookies, err := s.EndSessions(ctx, in.KeepCurrent)
	if err != nil {
		return nil, err
	}
	return noContent(cookies...), nil
}

type passwordInput struct {
	Body struct {
		NewPassword string `json:"new_password" doc:"The password from now on."`
	}
}

func (s *Service) postPassword(ctx context.Context, in *passwordInput) (*web.Reply[web.None], error) {
	cookies, err := s.ChangePassword(ctx, in.Body.NewPassword)
	if err != nil {
		return nil, err
	}
	return noContent(cookies...), nil
}

type stepUpInput struct {
	Body struct {
		Password string `json:"password" doc:"The password of the account."`
	}
}

type stepUpAnswer struct {
	AMR      []string `json:"amr" doc:"How the user signed in, RFC 8176 names."`
	ACR      string   `json:"acr" doc:"aal1 after a password, aal2 after a passkey."`
	AuthTime int64    `json:"auth_time" doc:"Last sign-in or step-up, Unix ms."`
}

func (s *Service) postStepUp(ctx context.Context, in *stepUpInput) (*web.Reply[stepUpAnswer], error) {
	cookie, err := s.StepUpWithPassword(ctx, in.Body.Password)
	if err != nil {
		return nil, err
	}
	session, err := s.session(ctx, access.From(ctx))
	if err != nil {
		return nil, err
	}
	return &web.Reply[stepUpAnswer]{
		Cookies: []*http.Cookie{cookie}, Data: stepUpAnswer{AMR: session.AMR, ACR: session.ACR, AuthTime: session.AuthTime},
	}, nil
}

// bindings is never null.
func (s *Service) bindings(ctx context.Context, q sqldb.Querier, userID int64) ([]Binding, error) {
	bindings, err := s.factors.Bindings(ctx, q, userID)
	if bindings == nil {
		bindings = []Binding{}
	}
	return bindings, err
}

func (s *Service) listBindings(ctx context.Context, _ *struct{}) ([]Binding, error) {
	return s.bindings(ctx, s.db.Reader(), access.From(ctx).UserID)
}

type bindingInput struct {
	Provider string `path:"provider" maxLength:"64" doc:"The provider's code, for example github."`
}

func (s *Service) deleteBinding(ctx context.Context, in *bindingInput) (*web.Reply[web.None], error) {
	if err := s.Unbind(ctx, in.Provider); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
