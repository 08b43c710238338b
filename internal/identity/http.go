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
	web.Route(m, "GET /auth/general", access.Public(), s.getGeneral)
	web.Route(m, "GET /auth/status", access.Optional(), s.getStatus)
	web.RouteReply(m, "POST /auth/logout", access.Optional(), s.postLogout)
	web.Route(m, "GET /auth/profile", access.Session(), s.getProfile)
	web.RouteReply(m, "POST /auth/step-up", access.Session(), s.postStepUp)
	web.Route(m, "GET /auth/third-party-bindings", access.Session(), s.listBindings)
	web.RouteReply(m, "DELETE /auth/third-party-bindings/{provider}", access.Session(), s.deleteBinding)
	web.RouteReply(m, "POST /auth/setup", access.Public(), s.postSetup)
	web.Raw(m, "GET /setup", access.Public(), 0, setupPage())
	web.RouteReply(m, "GET /apiv1/users/{user_id}/sessions", access.Session(), s.listSessions)
	web.RouteReply(m, "DELETE /apiv1/users/{user_id}/sessions", access.Session(), s.deleteSessions)
	web.RouteReply(m, "DELETE /apiv1/users/{user_id}/sessions/{session_id}", access.Session(), s.deleteSession)
	web.RouteReply(m, "POST /apiv1/users/{user_id}/password", access.Session(), s.postPassword)
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
	return noContent(cookie), nil
}

// noContent is 204 with cookies.
func noContent(cookies ...*http.Cookie) *web.Reply[web.None] {
	reply := web.NoContent()
	reply.Cookies = cookies
	return reply
}

type profileAnswer struct {
	User        User      `json:"user"`
	Session     Session   `json:"session"`
	HasPassword bool      `json:"has_password"`
	HasPasskey  bool      `json:"has_passkey"`
	Bindings    []Binding `json:"third_party_bindings" doc:"Accounts elsewhere with which the user signs in."`
}

func (s *Service) getProfile(ctx context.Context, _ *struct{}) (profileAnswer, error) {
	caller, q := access.From(ctx), s.db.Reader()
	row, err := New(q).userByID(ctx, caller.UserID)
	user, err := found(row, err)
	if err != nil {
		return profileAnswer{}, err
	}
	answer := profileAnswer{User: user, HasPassword: row.Password != ""}
	if answer.Session, err = s.session(ctx, caller); err != nil {
		return profileAnswer{}, err
	}
	if answer.HasPasskey, err = s.factors.HasPasskey(ctx, q, caller.UserID); err != nil {
		return profileAnswer{}, err
	}
	answer.Bindings, err = s.bindings(ctx, q, caller.UserID)
	return answer, err
}
