package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
)

const (
	eabKey      = "Y2FuYXJ5LWVhYi1obWFjLWtleS0yN2Ix" // "canary-eab-hmac-key-27b1"
	pushToken   = "canary-push-token-8812"
	script      = "#!/bin/sh\necho canary-script-6d0f\n"
	environment = "canary-environment-41aa"
)

// session goes through everything that takes or gives a secret, the refusals
// too, and returns the secrets with the places where they may be.
func (v *visit) session(c app.Config) []needle {
	t := v.t
	v.user(c, "canary@example.org")
	login := func(password string) map[string]any {
		return map[string]any{"action": "login", "email": "canary@example.org", "password": password}
	}
	signedIn := v.do("login", "POST", "/auth/general", login(password), 200)
	cookie, _, _ := strings.Cut(signedIn.header.Get("Set-Cookie"), ";")
	_, session, _ := strings.Cut(cookie, "=")
	v.do("wrong login", "POST", "/auth/general", login("canary-wrong-password-3e"), 401)
	v.do("malformed login", "POST", "/auth/general", map[string]any{"action": "login", "email": "a@b", "password": map[string]any{"canary-wrong-password-3e": 1}}, 400)
	alice := v.as(cookie, "")

	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	v.do("device start", "POST", "/auth/device", map[string]any{"action": "device_start"}, 200).data(t, &flow)
	v.do("early poll", "POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200)
	alice.do("device verify", "POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": flow.UserCode}, 200)
	var ready struct {
		RegistrationCode string `json:"registration_code"`
		UserID           int64  `json:"user_id"`
	}
	v.do("poll", "POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200).data(t, &ready)
	v.do("poll", "POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200)
	var registered struct {
		Device  struct{ ID int64 }
		Session struct {
			AccessToken  string `json:"access_token"`
			RefreshToken string `json:"refresh_token"`
		}
	}
	registration := map[string]any{
		"user_id": ready.UserID, "device_public_id": publicID(0xca), "registration_code": ready.RegistrationCode, "dev_pk": somePublicKey, "push_token": pushToken,
	}
	v.do("registration", "POST", "/apiv1/device/registration", registration, 201).data(t, &registered)
	registration["device_public_id"] = publicID(0xcb)
	v.do("second registration", "POST", "/apiv1/device/registration", registration, 400)
	var renewed struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	v.do("refresh", "POST", "/auth/refresh", map[string]any{"refresh_token": registered.Session.RefreshToken}, 200).data(t, &renewed)
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
	alice.do("API key", "POST", "/apiv1/me/apikeys", keyExample(nil), 201).data(t, &key)
	v.as("", key.Token).do("API key in use", "GET", "/apiv1/me/devices", nil, 200)
	alice.do("API keys", "GET", "/apiv1/me/apikeys", nil, 200)
	v.do("secret in a query", "GET", "/auth/status?token=canary-in-query-80&password=canary-in-query-80", nil, 200)
	var slid string
	if a := alice.do("session refresh", "POST", "/auth/refresh", nil, 200); a.status == 200 {
		slid, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
		_, slid, _ = strings.Cut(slid, "=")
	}

	config := []string{"install-config", "own install-config"}
	first, second := []string{"registration"}, []string{"refresh"}
	if renewed.AccessToken == registered.Session.AccessToken { // of one second
		first = append(first, "refresh")
		second = first
	}
	return append(exported,
		needle{name: "password", value: password},
		needle{name: "wrong password", value: "canary-wrong-password-3e"},
		needle{name: "session cookie", value: session, answers: []string{"login"}}, // its hash is gone with the rotation
		needle{name: "rotated session cookie", value: slid, answers: []string{"session refresh"}}, hashed(slid),
		needle{name: "device code", value: flow.DeviceCode, answers: []string{"device start"}}, hashed(flow.DeviceCode),
		needle{name: "user code", value: flow.UserCode, answers: []string{"device start"}},
		needle{name: "registration code", value: ready.RegistrationCode, answers: []string{"poll"}}, hashed(ready.RegistrationCode),
		needle{name: "access token", value: registered.Session.AccessToken, answers: first},
		needle{name: "refresh token", value: registered.Session.RefreshToken, answers: []string{"registration"}},
		needle{name: "new access token", value: renewed.AccessToken, answers: second},
		needle{name: "new refresh token", value: renewed.RefreshToken, answers: []string{"refresh"}},
		needle{name: "API key", value: key.Token, answers: []string{"API key"}}, hashed(key.Token),
		needle{name: "garbage token", value: "canary-garbage-token-5b"},
		needle{name: "garbage cookie", value: "canary-garbage-cookie-77"},
		needle{name: "garbage bearer", value: "canary-garbage-bearer-78"},
		needle{name: "garbage key", value: "canary-garbage-key-79"},
		needle{name: "secret in a query", value: "canary-in-query-80"},
		needle{name: "webhook secret", value: hookSecret},
		needle{name: "EAB key", value: eabKey},
		needle{name: "EAB key, decoded", value: "canary-eab-hmac-key-27b1"},
		needle{name: "push token", value: pushToken},
		needle{name: "script", value: "canary-script-6d0f", answers: config, stored: true},
		needle{name: "environment", value: environment, answers: config, stored: true},
	)
}

func number(id int64) string { return encoded(id) }

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
	v.do("webhook", "POST", "/apiv1/me/service_webhooks", map[string]any{"url": url, "secret": hookSecret}, 201)
	v.do("refused webhook", "POST", "/apiv1/me/service_webhooks", map[string]any{"url": "gopher://", "secret": hookSecret}, 400)
	v.do("webhook test", "POST", "/apiv1/me/service_webhooks/1/test", nil, 201)
	wait()
	v.do("webhooks", "GET", "/apiv1/me/service_webhooks", nil, 200)
}

// certificate imports one with its key, assigns and exports it.
func (v *visit) certificate(deviceID int64, self *visit) []needle {
	t := v.t
	certPEM, keyPEM, key := importable(t)
	_, otherKey, other := importable(t)
	var made record
	v.do("import", "POST", "/apiv1/me/certificates", map[string]any{"action": "import", "cert_pem": certPEM, "private_key_pem": keyPEM}, 201).data(t, &made)
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
	return []needle{
		{name: "private key", value: scalar(t, key)},
		{name: "private key as PEM", value: body(keyPEM), answers: []string{"export as PEM"}},
		{name: "refused private key", value: scalar(t, other)},
		{name: "refused private key as PEM", value: body(otherKey)},
		{name: "export password", value: zip.header.Get("X-Export-Password"), answers: []string{"export"}},
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

// importable is a self-made certificate with its key.
func importable(t *testing.T) (certPEM, keyPEM string, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "canary.example.org"}, DNSNames: []string{"canary.example.org"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if len(base64.StdEncoding.EncodeToString(keyDER)) < 3*64-10 {
		t.Fatal("the key is too short to look for its third line")
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})), key
}
