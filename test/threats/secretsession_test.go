package threats_test

import (
	"crypto/ecdsa"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
)

const (
	eabKey      = "Y2FuYXJ5LWVhYi1obWFjLWtleS0yN2Ix" // "canary-eab-hmac-key-27b1"
	pushToken   = "canary-push-token-8812"
	script      = "#!/bin/sh\necho canary-script-6d0f\n"
	environment = "canary-environment-41aa"
)

// session goes through everything that takes or gives a secret, the refusals
// too, and returns the secrets with the places where they may be.
func (v *visit) session(c app.Config) []apptest.Needle {
	t := v.t
	v.user(c, "canary@example.org")
	login := func(password string) map[string]any {
		return map[string]any{"action": "login", "email": "canary@example.org", "password": password}
	}
	signedIn := v.do("login", "POST", "/auth/general", login(apptest.Password), 200)
	cookie, _, _ := strings.Cut(signedIn.Header.Get("Set-Cookie"), ";")
	_, session, _ := strings.Cut(cookie, "=")
	v.do("wrong login", "POST", "/auth/general", login("canary-wrong-password-3e"), 401)
	v.do("malformed login", "POST", "/auth/general", map[string]any{"action": "login", "email": "a@b", "password": map[string]any{"canary-wrong-password-3e": 1}}, 400)
	alice := v.as(cookie, "")

	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	v.do("device start", "POST", "/auth/device", map[string]any{"action": "device_start"}, 200).Data(t, &flow)
	v.do("early poll", "POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200)
	alice.do("device verify", "POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": flow.UserCode}, 200)
	var ready struct {
		RegistrationCode string `json:"registration_code"`
		UserID           int64  `json:"user_id"`
	}
	v.do("poll", "POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200).Data(t, &ready)
	v.do("poll", "POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200)
	var registered struct {
		Device  struct{ ID int64 }
		Session struct {
			AccessToken  string `json:"access_token"`
			RefreshToken string `json:"refresh_token"`
		}
	}
	registration := map[string]any{
		"user_id": ready.UserID, "device_public_id": apptest.PublicID(0xca), "registration_code": ready.RegistrationCode, "dev_pk": apptest.SomePublicKey, "push_token": pushToken,
	}
	v.do("registration", "POST", "/apiv1/device/registration", registration, 201).Data(t, &registered)
	registration["device_public_id"] = apptest.PublicID(0xcb)
	v.do("second registration", "POST", "/apiv1/device/registration", registration, 400)
	var renewed struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	v.do("refresh", "POST", "/auth/refresh", map[string]any{"refresh_token": registered.Session.RefreshToken}, 200).Data(t, &renewed)
	v.do("garbage refresh", "POST", "/auth/refresh", map[string]any{"refresh_token": "rt_canary-garbage-token-5b"}, 401)
	self := v.as("", renewed.AccessToken)
	self.do("first use of the renewed pair", "GET", "/apiv1/devices/self/install-config", nil, 200)
	v.do("second refresh", "POST", "/auth/refresh", map[string]any{"refresh_token": registered.Session.RefreshToken}, 401)

	alice.accountAndHook()
	exported := alice.certificate(registered.Device.ID, self)
	alice.do("install-config", "PUT", "/apiv1/me/devices/"+number(registered.Device.ID)+"/install-config", map[string]any{
		"installs":            []any{map[string]any{"type": "exec", "cmd": "true", "env": map[string]any{"SECRET": environment}}},
		"after_update_script": script,
	}, 200)
	self.do("own install-config", "GET", "/apiv1/devices/self/install-config", nil, 200)

	v.as("certharbor_session=canary-garbage-cookie-77", "").do("garbage cookie", "GET", "/auth/profile", nil, 401)
	v.as("", "canary-garbage-bearer-78").do("garbage bearer", "GET", "/apiv1/devices/self/updates", nil, 401)
	v.as("", "ak_canary-garbage-key-79").do("garbage key", "GET", "/apiv1/me/devices", nil, 401)
	var key struct{ Token string }
	alice.do("API key", "POST", "/apiv1/me/apikeys", apptest.KeyExample(nil), 201).Data(t, &key)
	v.as("", key.Token).do("API key in use", "GET", "/apiv1/me/devices", nil, 200)
	alice.do("API keys", "GET", "/apiv1/me/apikeys", nil, 200)
	v.do("secret in a query", "GET", "/auth/status?token=canary-in-query-80&password=canary-in-query-80", nil, 200)
	var slid string
	if a := alice.do("session refresh", "POST", "/auth/refresh", nil, 200); a.Status == 200 {
		slid, _, _ = strings.Cut(a.Header.Get("Set-Cookie"), ";")
		_, slid, _ = strings.Cut(slid, "=")
	}

	config := []string{"install-config", "own install-config"}
	first, second := []string{"registration"}, []string{"refresh"}
	if renewed.AccessToken == registered.Session.AccessToken { // of one second
		first = append(first, "refresh")
		second = first
	}
	return append(exported,
		apptest.Needle{Name: "password", Value: apptest.Password},
		apptest.Needle{Name: "wrong password", Value: "canary-wrong-password-3e"},
		apptest.Needle{Name: "session cookie", Value: session, Answers: []string{"login"}}, // its hash is gone with the rotation
		apptest.Needle{Name: "rotated session cookie", Value: slid, Answers: []string{"session refresh"}}, hashed(slid),
		apptest.Needle{Name: "device code", Value: flow.DeviceCode, Answers: []string{"device start"}}, hashed(flow.DeviceCode),
		apptest.Needle{Name: "user code", Value: flow.UserCode, Answers: []string{"device start"}},
		apptest.Needle{Name: "registration code", Value: ready.RegistrationCode, Answers: []string{"poll"}}, hashed(ready.RegistrationCode),
		apptest.Needle{Name: "access token", Value: registered.Session.AccessToken, Answers: first},
		apptest.Needle{Name: "refresh token", Value: registered.Session.RefreshToken, Answers: []string{"registration"}},
		apptest.Needle{Name: "new access token", Value: renewed.AccessToken, Answers: second},
		apptest.Needle{Name: "new refresh token", Value: renewed.RefreshToken, Answers: []string{"refresh"}},
		apptest.Needle{Name: "API key", Value: key.Token, Answers: []string{"API key"}}, hashed(key.Token),
		apptest.Needle{Name: "garbage token", Value: "canary-garbage-token-5b"},
		apptest.Needle{Name: "garbage cookie", Value: "canary-garbage-cookie-77"},
		apptest.Needle{Name: "garbage bearer", Value: "canary-garbage-bearer-78"},
		apptest.Needle{Name: "garbage key", Value: "canary-garbage-key-79"},
		apptest.Needle{Name: "secret in a query", Value: "canary-in-query-80"},
		apptest.Needle{Name: "webhook secret", Value: apptest.HookSecret},
		apptest.Needle{Name: "EAB key", Value: eabKey},
		apptest.Needle{Name: "EAB key, decoded", Value: "canary-eab-hmac-key-27b1"},
		apptest.Needle{Name: "push token", Value: pushToken},
		apptest.Needle{Name: "script", Value: "canary-script-6d0f", Answers: config, Stored: true},
		apptest.Needle{Name: "environment", Value: environment, Answers: config, Stored: true},
	)
}

func number(id int64) string { return apptest.Encoded(id) }

// accountAndHook plants the secrets of an ACME account and of a webhook, also
// in requests that are refused.
func (v *visit) accountAndHook() {
	account := map[string]any{
		"name": "a", "provider": "custom", "directory_url": "https://127.0.0.1:1/", "eab_kid": "kid", "eab_hmac_key": eabKey,
	}
	v.do("account", "POST", "/apiv1/me/acme-accounts", account, 201)
	v.do("account registration", "PUT", "/apiv1/me/acme-accounts/1", map[string]any{"action": "register"}, 400, 409, 503)
	account["provider"] = "nobody"
	v.do("refused account", "POST", "/apiv1/me/acme-accounts", account, 400)
	url, wait := v.hooked()
	v.do("webhook", "POST", "/apiv1/me/service_webhooks", map[string]any{"url": url, "secret": apptest.HookSecret}, 201)
	v.do("refused webhook", "POST", "/apiv1/me/service_webhooks", map[string]any{"url": "gopher://", "secret": apptest.HookSecret}, 400)
	v.do("webhook test", "POST", "/apiv1/me/service_webhooks/1/test", nil, 201)
	wait()
	v.do("webhooks", "GET", "/apiv1/me/service_webhooks", nil, 200)
}

// certificate imports one with its key, assigns and exports it.
func (v *visit) certificate(deviceID int64, self *visit) []apptest.Needle {
	t := v.t
	certPEM, keyPEM, key := apptest.Importable(t)
	_, otherKey, other := apptest.Importable(t)
	var made apptest.Record
	v.do("import", "POST", "/apiv1/me/certificates", map[string]any{"action": "import", "cert_pem": certPEM, "private_key_pem": keyPEM}, 201).Data(t, &made)
	v.do("refused import", "POST", "/apiv1/me/certificates", map[string]any{"action": "import", "cert_pem": certPEM, "private_key_pem": otherKey}, 400)
	v.do("misplaced key", "POST", "/apiv1/me/certificates", map[string]any{"action": "create", "domain_name": otherKey, "private_key_pem": otherKey}, 400)
	one := "/apiv1/me/certificates/" + number(made.ID)
	v.do("assignment", "POST", "/apiv1/me/devices/"+number(deviceID)+"/certificates", map[string]any{"cert_id": made.ID}, 204)
	v.do("certificates", "GET", "/apiv1/me/certificates?detail=most", nil, 200)
	v.do("certificate", "GET", one, nil, 200)
	self.do("device certificate", "GET", "/apiv1/devices/self/certificates/"+number(made.ID), nil, 200)
	self.do("deploy-materials", "GET", "/apiv1/devices/self/certificates/"+number(made.ID)+"/deploy-materials", nil, 200)
	zip := v.do("export", "GET", one+"/export?format=zip", nil, 200)
	v.do("export as PEM", "GET", one+"/export?format=pem", nil, 200)
	body := func(text string) string { return strings.Split(text, "\n")[2] }
	return []apptest.Needle{
		{Name: "private key", Value: scalar(t, key)},
		{Name: "private key as PEM", Value: body(keyPEM), Answers: []string{"export as PEM"}},
		{Name: "refused private key", Value: scalar(t, other)},
		{Name: "refused private key as PEM", Value: body(otherKey)},
		{Name: "export password", Value: zip.Header.Get("X-Export-Password"), Answers: []string{"export"}},
	}
}

// scalar is the secret number of a key.
func scalar(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	raw, err := key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
