package providers

import (
	"context"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/web"
)

// Mount adds the area's routes.
func (s *Service) Mount(m *web.Mux) {
	web.Route(m, "GET /auth/providers", access.Public(), s.list)
	for _, kind := range []string{kindGitHub, kindWeixin} {
		fixed := func(*http.Request) (string, string) { return kind, kind }
		s.mountBrowser(m, "/auth/"+kind, fixed)
	}
	s.mountBrowser(m, "/auth/oidc/{name}", func(r *http.Request) (string, string) { return r.PathValue("name"), kindOIDC })
	web.RouteReply(m, "GET /auth/solana", access.Optional(), s.getSolana)
	web.RouteReply(m, "POST /auth/third-party-bindings/{provider}", access.Session(), s.postBinding)
}

func (s *Service) list(context.Context, *struct{}) ([]Info, error) { return s.infos, nil }

type solanaInput struct {
	Address   string `query:"address" maxLength:"100" doc:"The wallet's public key in base58."`
	Signature string `query:"signature" maxLength:"100" doc:"Ed25519 over the message, in base58. Without it the answer is the message and a cookie to send along with the signature."`
}

type solanaAnswer struct {
	Message   string      `json:"message,omitempty" doc:"To be signed as it is, once."`
	ExpiresAt int64       `json:"expires_at,omitempty" doc:"Of the message, Unix ms."`
	User      *solanaUser `json:"user,omitempty" doc:"Who is signed in."`
	To        string      `json:"to,omitempty" doc:"Where the browser should go."`
}

type solanaUser struct {
	ID    int64    `json:"id"`
	Email string   `json:"email"`
	Roles []string `json:"roles"`
}

func (s *Service) getSolana(ctx context.Context, in *solanaInput) (*web.Reply[solanaAnswer], error) {
	if in.Signature == "" {
		message, cookie, err := s.startWallet(ctx, toSignIn, in.Address)
		if err != nil {
			return nil, err
		}
		return &web.Reply[solanaAnswer]{Cookies: []*http.Cookie{cookie}, Data: solanaAnswer{Message: message.Text, ExpiresAt: message.ExpiresAt}}, nil
	}
	user, cookies, err := s.walletSignIn(ctx, in.Address, in.Signature)
	if err != nil {
		return nil, err
	}
	return &web.Reply[solanaAnswer]{
		Cookies: cookies, Data: solanaAnswer{User: &solanaUser{ID: user.ID, Email: user.Email, Roles: user.Roles}, To: s.identity.LandingPath()},
	}, nil
}

type bindingInput struct {
	Provider string `path:"provider" maxLength:"64" doc:"Its code in /auth/providers."`
	Body     *struct {
		To        string `json:"to,omitempty" doc:"The path to come back to, /account."`
		Address   string `json:"address,omitempty" maxLength:"100" doc:"solana: the wallet's public key in base58."`
		Signature string `json:"signature,omitempty" maxLength:"100" doc:"solana: Ed25519 over the message, in base58; without it the answer is the message."`
	}
}

type bindingAnswer struct {
	URL       string            `json:"url,omitempty" doc:"Where the browser goes to say that it wants to be bound."`
	Message   string            `json:"message,omitempty" doc:"solana: to be signed as it is, once."`
	ExpiresAt int64             `json:"expires_at,omitempty" doc:"Of the message, Unix ms."`
	Binding   *identity.Binding `json:"binding,omitempty" doc:"solana: what was bound."`
}

func (s *Service) postBinding(ctx context.Context, in *bindingInput) (*web.Reply[bindingAnswer], error) {
	var wish bindingWish
	if in.Body != nil {
		wish = bindingWish{to: in.Body.To, address: in.Body.Address, signature: in.Body.Signature}
	}
	step, cookie, err := s.bindStep(ctx, in.Provider, wish)
	if err != nil {
		return nil, err
	}
	return &web.Reply[bindingAnswer]{Cookies: []*http.Cookie{cookie}, Data: step}, nil
}
