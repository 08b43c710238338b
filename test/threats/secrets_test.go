package threats_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// visit is a session of requests that remembers every answer under a name.
type visit struct {
	t       *testing.T
	s       *apptest.Served
	answers map[string][]byte
	cookie  string
	bearer  string
}

// do sends a request over HTTP/2 and keeps head and body of the answer.
func (v *visit) do(name, method, path string, body any, want ...int) *apptest.Answer {
	v.t.Helper()
	var reader io.Reader
	if body != nil {
		reader = strings.NewReader(apptest.Encoded(body))
	}
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.s.URL+path, reader)
	if err != nil {
		v.t.Fatal(err)
	}
	if v.cookie != "" {
		r.Header.Set("Cookie", v.cookie)
	}
	if v.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+v.bearer)
	}
	response, err := v.s.Client.Do(r)
	if err != nil {
		v.t.Fatalf("%s: %v", name, err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	if response.ProtoMajor != 2 {
		v.t.Errorf("%s came over %s, not HTTP/2", name, response.Proto)
	}
	if !slices.Contains(want, response.StatusCode) {
		v.t.Errorf("%s: %s %s: %d %.300s, want %v", name, method, path, response.StatusCode, received, want)
	}
	var head bytes.Buffer
	_ = response.Header.Write(&head)
	v.answers[name] = append(append(v.answers[name], head.Bytes()...), received...)
	return &apptest.Answer{Status: response.StatusCode, Header: response.Header, Body: received}
}

// as goes on with other credentials.
func (v *visit) as(cookie, bearer string) *visit {
	c := *v
	c.cookie, c.bearer = cookie, bearer
	return &c
}

// Planted secrets go through a whole session with every debug output on, also
// that of the runtime's HTTP/2 (threats.md scenario 14, CertWarden backend#140).
// Afterwards they are in no line of the log, in no answer but the one that hands
// them out, and not in the database.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		c := apptest.Settings(t, db)
		if c.DB != "" { // nobody asks for it, but it is in the settings
			c.DB = strings.Replace(c.DB, "postgres@", "postgres:"+databasePassword+"@", 1)
		}
		elsewhere := plantSignIns(t, &c)
		s := apptest.ServeProcess(t, c, "GODEBUG=http2debug=2")
		v := &visit{t: t, s: s, answers: map[string][]byte{}}
		codes := v.mailed(c)
		needles := append(v.session(c), elsewhere.session(v)...)
		master, err := os.ReadFile(filepath.Join(c.Data, "master.key"))
		if err != nil {
			t.Fatal(err)
		}
		needles = append(needles, apptest.Needle{Name: "master key", Value: strings.TrimSpace(string(master))}, apptest.Needle{Name: "database password", Value: databasePassword})
		search(t, needles, v.answers, s.Output.String(), apptest.Stored(t, db))
		s.Stop()
		search(t, needles, v.answers, s.Output.String(), apptest.Stored(t, db))
		v.searchCodes(c, codes)
	})
}

func search(t *testing.T, needles []apptest.Needle, answers map[string][]byte, log string, database []byte) {
	t.Helper()
	for _, n := range needles {
		if len(n.Value) < 6 {
			t.Errorf("%s was not planted: %q", n.Name, n.Value)
			continue
		}
		if n.In([]byte(log)) {
			t.Errorf("the log holds the %s: %s", n.Name, excerpt(log, n))
		}
		if n.In(database) != n.Stored {
			t.Errorf("the database holds the %s: %t", n.Name, !n.Stored)
		}
		for name, text := range answers {
			if n.In(text) != slices.Contains(n.Answers, name) {
				t.Errorf("the answer to %s holds the %s: %t", name, n.Name, n.In(text))
			}
		}
	}
	// What must be found shows that the search looks in the right places.
	for _, known := range []string{"/auth/general", "device/registration", `"us":`} {
		if !strings.Contains(log, known) {
			t.Errorf("the log does not hold %s", known)
		}
	}
}

func excerpt(log string, n apptest.Needle) string {
	for line := range strings.Lines(log) {
		if n.In([]byte(line)) {
			return line[:min(len(line), 300)]
		}
	}
	return "(over several lines)"
}

const databasePassword = "canary-database-password-0e44"

// user makes a user beside the running server.
func (v *visit) user(c app.Config, email string) {
	v.t.Helper()
	users, done, err := app.Users(v.t.Context(), c)
	if err != nil {
		v.t.Fatal(err)
	}
	defer done()
	if _, err := users.CreateUser(v.t.Context(), identity.NewUser{Email: email, Password: apptest.Password}); err != nil {
		v.t.Fatal(err)
	}
}

// hooked keeps what a webhook receiver gets.
func (v *visit) hooked() (url string, wait func()) {
	came := make(chan []byte, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var text bytes.Buffer
		_ = r.Write(&text)
		came <- text.Bytes()
		w.WriteHeader(http.StatusNoContent)
	}))
	v.t.Cleanup(server.Close)
	return server.URL, func() {
		select {
		case text := <-came:
			v.answers["delivery"] = text
		case <-time.After(2 * time.Minute):
			v.t.Error("no delivery came")
		}
	}
}

// hashed is a needle's hash, which the database must hold.
func hashed(token string) apptest.Needle {
	return apptest.Needle{Name: "hash of a token", Value: string(seal.HashToken(token)), Stored: true}
}
