package passkeys

import (
	"context"
	"fmt"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// Mount adds the area's routes.
func (s *Service) Mount(m *web.Mux) {
	web.Route(m, "POST /auth/webauthn/register/options", access.Session(), s.postRegisterOptions)
	web.RouteReply(m, "POST /auth/webauthn/register/verify", access.Session(), s.postRegister)
	web.RouteReply(m, "POST /auth/webauthn/login/options", access.Public(), s.postLoginOptions)
	web.RouteReply(m, "POST /auth/webauthn/login/verify", access.Optional(), s.postLogin)
	web.Route(m, "POST /auth/webauthn/step-up/options", access.Session(), s.postStepUpOptions)
	web.RouteReply(m, "POST /auth/webauthn/step-up/verify", access.Session(), s.postStepUp)
	web.RouteReply(m, "GET /auth/webauthn/credentials", access.Session(), s.list)
	web.RouteReply(m, "DELETE /auth/webauthn/credentials/{credential_id}", access.Session(), s.remove)
	s.mountPage(m)
}

func (s *Service) postRegisterOptions(ctx context.Context, _ *struct{}) (CreationOptions, error) {
	return s.RegisterOptions(ctx)
}

type registerInput struct{ Body CreatedCredential }

func (s *Service) postRegister(ctx context.Context, in *registerInput) (*web.Reply[Passkey], error) {
	made, err := s.Add(ctx, &in.Body)
	if err != nil {
		return nil, err
	}
	return web.Created(fmt.Sprintf("/auth/webauthn/credentials/%d", made.ID), made), nil
}

// loginOptionsInput takes an address from clients that ask for one first. It is
// not looked up: see the package comment.
type loginOptionsInput struct {
	Body *struct {
		Email string `json:"email,omitempty" maxLength:"254" doc:"Accepted and not used: the passkey says whose it is."`
	}
}

func (s *Service) postLoginOptions(ctx context.Context, _ *loginOptionsInput) (*web.Reply[RequestOptions], error) {
	options, cookie, err := s.LoginOptions(ctx)
	if err != nil {
		return nil, err
	}
	return &web.Reply[RequestOptions]{Data: options, Cookies: []*http.Cookie{cookie}}, nil
}

type assertionInput struct{ Body AssertedCredential }

type passkeyLogin struct {
	User passkeyLoginUser `json:"user"`
	To   string           `json:"to" doc:"Where the browser should go."`
}

type passkeyLoginUser struct {
	ID    int64    `json:"id"`
	Email string   `json:"email"`
	Roles []string `json:"roles"`
}

func (s *Service) postLogin(ctx context.Context, in *assertionInput) (*web.Reply[passkeyLogin], error) {
	signedIn, err := s.Login(ctx, &in.Body)
	if err != nil {
		return nil, err
	}
	user := signedIn.User
	return &web.Reply[passkeyLogin]{
		Cookies: signedIn.Cookies, // the session's first (wire.md section 1.7)
		Data:    passkeyLogin{User: passkeyLoginUser{ID: user.ID, Email: user.Email, Roles: user.Roles}, To: s.identity.LandingPath()},
	}, nil
}

func (s *Service) postStepUpOptions(ctx context.Context, _ *struct{}) (RequestOptions, error) {
	return s.StepUpOptions(ctx)
}

type passkeyStepUp struct {
	AMR []string `json:"amr" doc:"How the user has just proved to be there, RFC 8176 names."`
	ACR string   `json:"acr" doc:"aal2."`
}

func (s *Service) postStepUp(ctx context.Context, in *assertionInput) (*web.Reply[passkeyStepUp], error) {
	method, cookie, err := s.StepUp(ctx, &in.Body)
	if err != nil {
		return nil, err
	}
	return &web.Reply[passkeyStepUp]{Cookies: []*http.Cookie{cookie}, Data: passkeyStepUp{AMR: method.AMR, ACR: method.ACR}}, nil
}

type listInput struct{ web.Page }

func (s *Service) list(ctx context.Context, in *listInput) (*web.Reply[[]Passkey], error) {
	all, err := s.Passkeys(ctx)
	if err != nil {
		return nil, err
	}
	return web.ListAll(all, in.Page), nil
}

type removeInput struct {
	CredentialID int64 `path:"credential_id" doc:"The passkey's id in the list."`
}

func (s *Service) remove(ctx context.Context, in *removeInput) (*web.Reply[web.None], error) {
	if err := s.Remove(ctx, in.CredentialID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
