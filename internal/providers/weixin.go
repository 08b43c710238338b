package providers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// weixin is a website application, see
// https://developers.weixin.qq.com/doc/oplatform/Website_App/WeChat_Login/Wechat_Login.html
// It is OAuth 2 with other names: no PKCE, the token is asked for with GET and
// the secret in the query, and errors come with status 200 and an errcode.
type weixin struct {
	settings Weixin
	client   *http.Client
}

func (w weixin) about() Info {
	return Info{Provider: kindWeixin, Kind: kindWeixin, Title: "Weixin", URL: "/auth/weixin"}
}

func (w weixin) begin(_ context.Context, s secrets) (string, error) {
	// In the order of the documentation.
	return w.settings.AuthorizeURL + "?appid=" + url.QueryEscape(w.settings.AppID) + "&redirect_uri=" + url.QueryEscape(s.callback) +
		"&response_type=code&scope=snsapi_login&state=" + s.state + "#wechat_redirect", nil
}

// failure is how Weixin tells of errors.
type failure struct {
	Code int `json:"errcode"`
}

// The codes for which the person, not the operator or Weixin, has to do
// something: invalid code, code used, code expired.
var codeRefused = []int{40029, 40163, 42003}

func (w weixin) finish(ctx context.Context, _ secrets, code string) (account, error) {
	title := w.about().Title
	var token struct {
		failure
		AccessToken string `json:"access_token"`
		OpenID      string `json:"openid"`
	}
	err := w.get(ctx, "/sns/oauth2/access_token", &token, "appid", w.settings.AppID, "secret", w.settings.AppSecret, "code", code, "grant_type", "authorization_code")
	switch {
	case err != nil:
		return account{}, unreachable(title, err)
	case slices.Contains(codeRefused, token.Code):
		return account{}, refused(title, fmt.Sprintf("errcode %d", token.Code))
	case token.Code != 0:
		return account{}, unreachable(title, fmt.Errorf("%w: errcode %d", errGarbage, token.Code))
	case !plain(token.OpenID):
		return account{}, unreachable(title, errGarbage)
	}
	a := account{issuer: w.settings.AuthorizeURL + "#" + w.settings.AppID, subject: token.OpenID}
	var user struct {
		failure
		OpenID   string `json:"openid"`
		Nickname string `json:"nickname"`
	}
	err = w.get(ctx, "/sns/userinfo", &user, "access_token", token.AccessToken, "openid", token.OpenID, "lang", "en")
	if err == nil && user.Code == 0 && user.OpenID == token.OpenID { // else there is no name, which is no harm
		a.name, a.userName = shown(user.Nickname), user.Nickname
	}
	return a, nil
}

// get asks the API; pairs are the names and values of the query.
func (w weixin) get(ctx context.Context, path string, v any, pairs ...string) error {
	query := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		query.Set(pair[0], pair[1])
	}
	return getJSON(ctx, w.client, w.settings.APIURL+path+"?"+query.Encode(), nil, v)
}
