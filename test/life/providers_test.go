package life_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/providers/providertest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// providerWorld is a program with every kind of provider.
type providerWorld struct {
	*apptest.Program
	url    string // as browsers know it
	github providertest.GitHub
	weixin providertest.Weixin
	corp   *providertest.OIDC
}

func newProviderWorld(t *testing.T, db sqldb.Config) *providerWorld {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := apptest.Settings(t, db)
	c.BaseURL = "http://" + listener.Addr().String()
	w := &providerWorld{}
	w.github, w.weixin, w.corp = apptest.WithProviders(t, &c)
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	w.Program = apptest.Start(t, c, app.Options{}, listener)
	w.url = strings.Replace(c.BaseURL, "127.0.0.1", "localhost", 1)
	return w
}

// surfer is a browser that follows redirects and keeps cookies.
type surfer struct {
	w      *providerWorld
	client *http.Client
}

func (w *providerWorld) surfer() *surfer {
	w.T.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.T.Fatal(err)
	}
	return &surfer{w, &http.Client{Jar: jar}}
}

// page is where a surfer has ended up.
type page struct {
	*apptest.Answer
	at *url.URL
}

func (s *surfer) open(method, address string, body any, want int) page {
	s.w.T.Helper()
	var reader io.Reader
	if body != nil {
		reader = strings.NewReader(apptest.Encoded(body))
	}
	if strings.HasPrefix(address, "/") {
		address = s.w.url + address
	}
	r, err := http.NewRequestWithContext(s.w.T.Context(), method, address, reader)
	if err != nil {
		s.w.T.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.w.T.Fatal(err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		s.w.T.Fatal(err)
	}
	if response.StatusCode != want || strings.Contains(string(received), providertest.Upstream) {
		s.w.T.Fatalf("%s %s: %d at %s: %s", method, address, response.StatusCode, response.Request.URL, received)
	}
	return page{&apptest.Answer{Status: response.StatusCode, Header: response.Header, Body: received}, response.Request.URL}
}

func (s *surfer) who() int64 {
	s.w.T.Helper()
	var status struct{ User struct{ ID int64 } }
	s.open("GET", "/auth/status", nil, 200).Data(s.w.T, &status)
	return status.User.ID
}

func (s *surfer) bound() (codes []string) {
	s.w.T.Helper()
	var list []struct{ Provider string }
	s.open("GET", "/auth/third-party-bindings", nil, 200).Data(s.w.T, &list)
	for _, b := range list {
		codes = append(codes, b.Provider)
	}
	return codes
}

// password signs in with it.
func (s *surfer) password(email string) {
	s.w.T.Helper()
	s.open("POST", "/auth/general", map[string]any{"action": "login", "email": email, "password": apptest.Password}, 200)
}

// A person signs in with an account at each provider and with a wallet, binds
// them to an account with a password, unbinds them, and is refused where that is
// due, through real sockets, redirects and cookies.
func TestSignInWithProviders(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		w := newProviderWorld(t, db)
		w.Person("ada@example.org")
		users := map[int64]string{}
		for _, one := range []struct {
			code, path string
			server     *providertest.Server
		}{{"github", "/auth/github", w.github.Server}, {"weixin", "/auth/weixin", w.weixin.Server}, {"corp", "/auth/oidc/corp", w.corp.Server}} {
			one.server.SignedIn(providertest.Person{ID: "4711", Name: "grace", Email: one.code + "@example.org", Verified: true})
			s := w.surfer()
			if end := s.open("GET", w.URL+one.path+"?to=/account", nil, 200); end.at.String() != w.url+"/account" { // from the address to the name
				t.Errorf("%s: ended at %s", one.code, end.at)
			}
			user := s.who()
			if user == 0 || users[user] != "" {
				t.Fatalf("%s: user %d, %v", one.code, user, users)
			}
			users[user] = one.code
			again := w.surfer()
			again.open("GET", one.path, nil, 200)
			if again.who() != user {
				t.Errorf("%s: user %d the second time", one.code, again.who())
			}
			refused := again.open("DELETE", "/auth/third-party-bindings/"+one.code, nil, 409)
			if !strings.Contains(string(refused.Body), "last way to sign in") {
				t.Errorf("%s: %s", one.code, refused.Body)
			}
			// An account that is somebody's cannot be bound by another.
			ada := w.surfer()
			ada.password("ada@example.org")
			var begun struct{ URL string }
			ada.open("POST", "/auth/third-party-bindings/"+one.code, map[string]any{}, 200).Data(t, &begun)
			if end := ada.open("GET", begun.URL, nil, 409); !strings.Contains(string(end.Body), "<h1>Not signed in with") {
				t.Errorf("%s: %s", one.code, end.Body)
			}
			// Hers is.
			one.server.SignedIn(providertest.Person{ID: "1815", Name: "ada", Email: "ada@example.org", Verified: true})
			ada.open("POST", "/auth/third-party-bindings/"+one.code, map[string]any{}, 200).Data(t, &begun)
			ada.open("GET", begun.URL, nil, 200)
			home := w.surfer()
			home.open("GET", one.path, nil, 200)
			if home.who() != ada.who() || !strings.Contains(fmt.Sprint(ada.bound()), one.code) {
				t.Errorf("%s: bound %v, signed in as %d", one.code, ada.bound(), home.who())
			}
			ada.open("DELETE", "/auth/third-party-bindings/"+one.code, nil, 204)
			// By then her address alone does not let the account in (threats.md, CertMate #357).
			if one.code != "weixin" { // which has no addresses
				w.surfer().open("GET", one.path, nil, 409)
			}
		}
		w.wallet(t)
		w.audited(t, "session.sign_in", "session.sign_in_refused", "user.bind", "user.bind_refused", "user.unbind", "user.create")
	})
}

// wallet does the same with a key pair.
func (w *providerWorld) wallet(t *testing.T) {
	t.Helper()
	key := ed25519.NewKeyFromSeed([]byte("0123456789abcdef0123456789abcdef"))
	address := base58.Encode(key.Public().(ed25519.PublicKey))
	sign := func(message string) string { return base58.Encode(ed25519.Sign(key, []byte(message))) }
	s := w.surfer()
	var begun struct{ Message string }
	s.open("GET", "/auth/solana?address="+address, nil, 200).Data(t, &begun)
	signed := "/auth/solana?address=" + address + "&signature=" + sign(begun.Message)
	w.surfer().open("GET", signed, nil, 401) // in another browser
	s.open("GET", signed, nil, 200)
	s.open("GET", signed, nil, 401) // once
	if s.who() == 0 || len(s.bound()) != 1 {
		t.Errorf("user %d with %v", s.who(), s.bound())
	}
	s.open("DELETE", "/auth/third-party-bindings/solana", nil, 409)
	w.github.SignedIn(providertest.Person{ID: "99", Name: "wallet"})
	var address2 struct{ URL string }
	s.open("POST", "/auth/third-party-bindings/github", map[string]any{}, 200).Data(t, &address2)
	s.open("GET", address2.URL, nil, 200)
	s.open("DELETE", "/auth/third-party-bindings/solana", nil, 204)
	body := map[string]any{"address": address}
	s.open("POST", "/auth/third-party-bindings/solana", body, 200).Data(t, &begun)
	body["signature"] = sign(begun.Message)
	s.open("POST", "/auth/third-party-bindings/solana", body, 200)
	if got := fmt.Sprint(s.bound()); got != "[github solana]" {
		t.Errorf("bound %s", got)
	}
}

// audited requires that the log has each of the actions.
func (w *providerWorld) audited(t *testing.T, actions ...string) {
	t.Helper()
	db := w.Database()
	for _, action := range actions {
		var n int64
		if err := db.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM audit_log WHERE action = $1", action).Scan(&n); err != nil || n == 0 {
			t.Errorf("%s: %d entries, %v", action, n, err)
		}
	}
}

// The page for people offers what is set up, and the list has no secret.
func TestProvidersAreOffered(t *testing.T) {
	t.Parallel()
	w := newProviderWorld(t, apptest.Engines["sqlite"](t))
	answer := w.Anonymous().Do("GET", "/auth/providers", nil, 200)
	var list []map[string]any
	answer.Data(t, &list)
	if len(list) != 4 {
		t.Errorf("%s", answer.Body)
	}
	for _, secret := range []string{w.github.ClientSecret, w.weixin.ClientSecret, w.corp.ClientSecret, w.corp.URL} {
		if strings.Contains(string(answer.Body), secret) {
			t.Errorf("the list holds %s", secret)
		}
	}
	if !json.Valid(answer.Body) {
		t.Errorf("%s", answer.Body)
	}
}
