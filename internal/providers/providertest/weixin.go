package providertest

import (
	"net/http"
	"testing"
)

// Weixin is open.weixin.qq.com and api.weixin.qq.com at one address.
type Weixin struct{ *Server }

// The paths of Weixin.
const (
	WeixinToken = "/sns/oauth2/access_token" //nolint:gosec // a path
	WeixinUser  = "/sns/userinfo"
)

// StartWeixin starts one with a website application.
func StartWeixin(t testing.TB) Weixin {
	w := &Weixin{}
	w.Server = start(t, map[string]http.HandlerFunc{
		"/connect/qrconnect": w.authorize, WeixinToken: w.redeemCode, WeixinUser: w.user,
	}, "wx0123456789abcdef", "weixin-secret-canary-7b3f")
	return *w
}

func (x *Weixin) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("appid") != x.ClientID || q.Get("response_type") != "code" || q.Get("scope") != "snsapi_login" || q.Has("client_id") {
		_, _ = w.Write([]byte("<html>Scope parameter error")) // with 200
		return
	}
	x.grantCode(w, r, nil) // a refusal has state alone
}

// errcode is how Weixin tells of errors: with 200, as text.
func errcode(w http.ResponseWriter, code int, message string) {
	writeJSON(w, "text/plain", http.StatusOK, map[string]any{"errcode": code, "errmsg": message + ", rid: " + Upstream})
}

func (x *Weixin) redeemCode(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case r.Method != http.MethodGet:
		errcode(w, 43001, "require GET method")
		return
	case q.Get("appid") != x.ClientID:
		errcode(w, 40013, "invalid appid")
		return
	case q.Get("secret") != x.ClientSecret:
		errcode(w, 40125, "invalid appsecret "+q.Get("secret"))
		return
	case q.Get("grant_type") != "authorization_code":
		errcode(w, 40002, "invalid grant_type")
		return
	}
	grant, wrong := x.redeem(q.Get("code"), "", "", false)
	switch wrong {
	case codeGood:
		writeJSON(w, "text/plain", http.StatusOK, map[string]any{
			"access_token": x.token(grant.who), "expires_in": 7200, "refresh_token": "refresh-" + random(), "openid": grant.who.ID,
			"scope": "snsapi_login", "unionid": "union-" + grant.who.ID,
		})
	case codeUsed:
		errcode(w, 40163, "code been used")
	case codeExpired:
		errcode(w, 42003, "code expired")
	default:
		errcode(w, 40029, "invalid code")
	}
}

func (x *Weixin) user(w http.ResponseWriter, r *http.Request) {
	p, ok := x.holder(r.URL.Query().Get("access_token"))
	if !ok || r.URL.Query().Get("openid") != p.ID {
		errcode(w, 40001, "invalid credential")
		return
	}
	writeJSON(w, "text/plain", http.StatusOK, map[string]any{
		"openid": p.ID, "nickname": p.Name, "sex": 0, "language": "", "city": "", "province": "", "country": "", "headimgurl": "", "privilege": []string{}, "unionid": "union-" + p.ID,
	})
}
