package providers

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"golang.org/x/oauth2"
)

// github is an OAuth app, see
// https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps
type github struct {
	settings GitHub
	client   *http.Client
}

func (g github) about() Info {
	return Info{Provider: kindGitHub, Kind: kindGitHub, Title: "GitHub", URL: "/auth/github"}
}

func (g github) config() oauth2.Config {
	return oauth2.Config{
		ClientID: g.settings.ClientID, ClientSecret: g.settings.ClientSecret, Scopes: []string{"user:email"},
		Endpoint: oauth2.Endpoint{
			AuthURL: g.settings.URL + "/login/oauth/authorize", TokenURL: g.settings.URL + "/login/oauth/access_token", AuthStyle: oauth2.AuthStyleInParams,
		},
	}
}

func (g github) begin(_ context.Context, s secrets) (string, error) {
	config := g.config()
	config.RedirectURL = s.callback
	return config.AuthCodeURL(s.state, oauth2.S256ChallengeOption(s.verifier)), nil
}

func (g github) finish(ctx context.Context, s secrets, code string) (account, error) {
	title := g.about().Title
	token, err := redeem(ctx, g.client, title, g.config(), s, code)
	if err != nil {
		return account{}, err
	}
	var user struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
	}
	if err := g.get(ctx, "/user", token, &user); err != nil {
		return account{}, unreachable(title, err)
	}
	if user.ID <= 0 {
		return account{}, unreachable(title, errGarbage)
	}
	email, err := g.email(ctx, token)
	if err != nil {
		return account{}, unreachable(title, err)
	}
	return account{issuer: g.settings.URL, subject: strconv.FormatInt(user.ID, 10), name: shown(user.Login), userName: user.Login, email: email}, nil
}

// email is the primary address when GitHub has verified it. Somebody who did
// not grant the scope has none.
func (g github) email(ctx context.Context, token *oauth2.Token) (string, error) {
	var addresses []struct {
		Email    string `json:"email"`
		Primary  bool   `json:"primary"`
		Verified bool   `json:"verified"`
	}
	err := g.get(ctx, "/user/emails", token, &addresses)
	if status, ok := errors.AsType[statusError](err); ok && (status == http.StatusForbidden || status == http.StatusNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, a := range addresses {
		if a.Primary && a.Verified {
			return a.Email, nil
		}
	}
	return "", nil
}

func (g github) get(ctx context.Context, path string, token *oauth2.Token, v any) error {
	return getJSON(ctx, g.client, g.settings.APIURL+path, http.Header{
		"Authorization": {"Bearer " + token.AccessToken}, "Accept": {"application/vnd.github+json"},
		"X-Github-Api-Version": {"2022-11-28"}, "User-Agent": {"certharbor"},
	}, v)
}
