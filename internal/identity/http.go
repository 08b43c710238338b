package identity

import (
	"context"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// Mount adds the area's routes.
func (s *Service) Mount(m *web.Mux) {
	web.RouteReply(m, "POST /auth/general", access.Optional(), s.postGeneral)
	web.Route(m, "GET /auth/status", access.Optional(), s.getStatus)
	web.RouteReply(m, "POST /auth/logout", access.Optional(), s.postLogout)
	web.Route(m, "GET /auth/profile", access.Session(), s.getProfile)
}

// generalInput leaves to the action which of the members it needs.
type generalInput struct {
	Body struct {
		Action   string `json:"action" enum:"login" doc:"What to do."`
		Email    string `json:"email,omitempty" doc:"The e-mail address of the account."`
		Password string `json:"password,omitempty" doc:"The password."`
	}
}

type loginAnswer struct {
	User loginUser `json:"user"`
	To   string    `json:"to" doc:"Where the browser should go."`
}

type loginUser struct {
	ID    int64    `json:"id"`
	Email string   `json:"email"`
	Roles []string `json:"roles"`
}

func (s *Service) postGeneral(ctx context.Context, in *generalInput) (*web.Reply[loginAnswer], error) {
	signedIn, err := s.Login(ctx, in.Body.Email, in.Body.Password)
	if err != nil {
		return nil, err
	}
	user := signedIn.User
	return &web.Reply[loginAnswer]{
		Cookies: []*http.Cookie{signedIn.Cookie},
		Data:    loginAnswer{User: loginUser{ID: user.ID, Email: user.Email, Roles: user.Roles}, To: landing},
	}, nil
}

type statusAnswer struct {
	Authenticated bool        `json:"authenticated"`
	User          *statusUser `json:"user,omitempty"`
	To            string      `json:"to,omitempty" doc:"Where the browser should go."`
	AMR           []string    `json:"amr,omitempty" doc:"How the user signed in, RFC 8176 names."`
	ACR           string      `json:"acr,omitempty" doc:"aal1 after a password, aal2 after a passkey."`
	AuthTime      int64       `json:"auth_time,omitempty" doc:"Last sign-in or step-up, Unix ms."`
	MFA           *bool       `json:"mfa,omitempty" doc:"Whether the session is at aal2."`
}

type statusUser struct {
	ID                 int64    `json:"id"`
	Name               string   `json:"name"`
	Email              string   `json:"email"`
	Roles              []string `json:"roles"`
	CountryOfResidence string   `json:"country_of_residence"`
}

func (s *Service) getStatus(ctx context.Context, _ *struct{}) (statusAnswer, error) {
	caller := access.From(ctx)
	if caller == nil {
		return statusAnswer{}, nil
	}
	user, err := s.User(ctx, caller.UserID)
	if err != nil {
		return statusAnswer{}, err
	}
	mfa := caller.ACR == acrPasskey
	return statusAnswer{
		Authenticated: true,
		User:          &statusUser{ID: user.ID, Name: user.Name, Email: user.Email, Roles: user.Roles, CountryOfResidence: user.CountryOfResidence},
		To:            landing, AMR: caller.AMR, ACR: caller.ACR, AuthTime: caller.AuthTime, MFA: &mfa,
	}, nil
}

func (s *Service) postLogout(ctx context.Context, _ *struct{}) (*web.Reply[web.None], error) {
	cookie, err := s.Logout(ctx)
	if err != nil {
		return nil, err
	}
	reply := web.NoContent()
	reply.Cookies = []*http.Cookie{cookie}
	return reply, nil
}

type profileAnswer struct {
	User    User    `json:"user"`
	Session Session `json:"session"`
}

func (s *Service) getProfile(ctx context.Context, _ *struct{}) (profileAnswer, error) {
	caller := access.From(ctx)
	user, err := s.User(ctx, caller.UserID)
	if err != nil {
		return profileAnswer{}, err
	}
	session, err := s.session(ctx, caller)
	if err != nil {
		return profileAnswer{}, err
	}
	return profileAnswer{User: user, Session: session}, nil
}
