package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// imported is a certificate with its key, without a CA.
func (c *caller) imported() int64 {
	c.p.t.Helper()
	certPEM, keyPEM, _ := importable(c.p.t)
	var made record
	c.do("POST", "/apiv1/me/certificates", map[string]any{"action": "import", "cert_pem": certPEM, "private_key_pem": keyPEM}, 201).data(c.p.t, &made)
	return made.ID
}

// assigned are the certificates of the device.
func (c *caller) assigned(d *device) (ids []int64) {
	c.p.t.Helper()
	var list []record
	c.do("GET", fmt.Sprintf("/apiv1/me/devices/%d/certificates", d.ID), nil, 200).data(c.p.t, &list)
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

const assignPath = "/apiv1/me/certificate-assign"

// certificate-assign, with every key that must not be able to (threats.md
// scenario 2) and with the one that must.
func TestCertificateAssignByKey(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p := start(t, settings(t, db), app.Options{}, nil)
		alice, bob := p.person("alice@example.org"), p.person("bob@example.org")
		mine, foreignDevice := alice.enrol(publicID(1)), bob.enrol(publicID(2))
		cert, other, foreign := alice.imported(), alice.imported(), bob.imported()
		body := map[string]any{"device_public_id": mine.PublicID}
		good := alice.apiKey(entry("certificates", cert, "read"))
		for _, test := range []struct {
			name         string
			key          *apiKey
			status, code int
		}{
			{"*", alice.apiKey(entry("certificates", "*", "read")), 403, 5022},
			{"* beside one", alice.apiKey(entry("certificates", cert, "read"), entry("certificates", "*", "read")), 403, 5022},
			{"two", alice.apiKey(entry("certificates", cert, "read"), entry("certificates", other, "read")), 400, 5000},
			{"issue alone", alice.apiKey(entry("certificates", cert, "issue")), 403, 5022},
			{"write alone", alice.apiKey(entry("certificates", cert, "write")), 403, 5022},
			{"another scope", alice.apiKey(entry("devices", "*", "read", "write")), 403, 5022},
			{"a foreign certificate", alice.apiKey(entry("certificates", foreign, "read")), 404, 5003},
			{"an absent certificate", alice.apiKey(entry("certificates", 99999, "read")), 404, 5003},
			{"bob's key for alice's certificate", bob.apiKey(entry("certificates", cert, "read")), 404, 5003},
		} {
			a := test.key.try("POST", assignPath, body)
			if problem := a.check(t, test.name, nil); problem == nil || a.status != test.status || problem.Code != test.code {
				t.Errorf("%s: %d %s, want %d/%d", test.name, a.status, a.body, test.status, test.code)
			}
		}
		device := func(id string) *answer { return good.try("POST", assignPath, map[string]any{"device_public_id": id}) }
		same(t, "a foreign device", device(foreignDevice.PublicID), device(publicID(77)), 404)
		good.do("POST", assignPath, map[string]any{"device_public_id": "1"}, 400)
		good.do("POST", assignPath, map[string]any{}, 400)
		good.do("POST", fmt.Sprintf("/apiv1/users/%d/certificate-assign", bob.UserID), body, 403)
		good.do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", mine.ID), map[string]any{"cert_id": cert}, 403)
		alice.do("POST", assignPath, body, 401)
		mine.do("POST", assignPath, body, 401)
		if got := append(alice.assigned(mine), bob.assigned(foreignDevice)...); len(got) != 0 {
			t.Fatalf("assigned by refused keys: %v", got)
		}

		// The certificate is the key's, whatever else the body says.
		good.do("POST", assignPath, map[string]any{
			"device_public_id": strings.ToUpper(mine.PublicID), "cert_id": other, "certificate_id": other, "user_id": bob.UserID, "device_id": foreignDevice.ID,
		}, 204)
		good.do("POST", assignPath, body, 204)
		if got := alice.assigned(mine); len(got) != 1 || got[0] != cert {
			t.Errorf("assigned %v, want %d", got, cert)
		}
		mine.install(t, cert)
		if got := p.audited(good); len(got) != 1 || got[0] != "certificate.assign" {
			t.Errorf("the log has %v of the key", got)
		}
	})
}

// inFlight sends the head of a request and returns when the server has let it
// in and waits for its body; finish sends the body and gives the answer.
func (k *apiKey) inFlight(t *testing.T, path string, body any) (finish func() (status int, text string)) {
	t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", k.p.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		path, k.Token, len(encoded))
	reader := bufio.NewReader(conn)
	interim, err := http.ReadResponse(reader, nil) // comes when the handler reads: after the key was accepted
	if err != nil || interim.StatusCode != http.StatusContinue {
		t.Fatalf("%v %v, want 100", interim, err)
	}
	return func() (int, string) {
		if _, err := conn.Write(encoded); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var text strings.Builder
		if _, err := bufio.NewReader(response.Body).WriteTo(&text); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, text.String()
	}
}

// A key that is revoked, expires, or loses the permission while its request is
// under way assigns nothing; nor does one whose owner is disabled meanwhile.
func TestKeyChangesMidRequest(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p := start(t, settings(t, db), app.Options{}, nil)
		me := p.person("me@example.org")
		device, cert := me.enrol(publicID(1)), me.imported()
		for _, test := range []struct {
			name   string
			change func(k *apiKey)
			status int
		}{
			{"revoked", func(k *apiKey) { me.do("DELETE", k.path(), nil, 204) }, 401},
			{"less permitted", func(k *apiKey) {
				me.do("PATCH", k.path(), map[string]any{"permissions": []any{entry("devices", "*", "read")}}, 200)
			}, 403},
			{"for another certificate", func(k *apiKey) {
				me.do("PATCH", k.path(), map[string]any{"permissions": []any{entry("certificates", cert+1, "read")}}, 200)
			}, 403},
			{"expired", func(k *apiKey) { p.execute("UPDATE api_keys SET expires_at = 1 WHERE id = $1", k.ID) }, 401},
			{"of a disabled user", func(*apiKey) { p.execute("UPDATE users SET status = 'DISABLED' WHERE id = $1", me.UserID) }, 401},
		} {
			key := me.apiKey(entry("certificates", cert, "read"))
			finish := key.inFlight(t, assignPath, map[string]any{"device_public_id": device.PublicID})
			test.change(key)
			if status, text := finish(); status != test.status {
				t.Errorf("%s: %d %s, want %d", test.name, status, text, test.status)
			}
			p.execute("UPDATE users SET status = 'ACTIVE' WHERE id = $1", me.UserID)
		}
		if got := me.assigned(device); len(got) != 0 {
			t.Errorf("assigned %v", got)
		}
	})
}

func (p *program) execute(query string, args ...any) {
	p.t.Helper()
	if _, err := p.database().Writer().ExecContext(p.t.Context(), query, args...); err != nil {
		p.t.Fatal(err)
	}
}

// Twenty keys assign while they are revoked: each either assigned before its
// revocation was answered, or is refused and assigned nothing.
func TestAssignRacesRevocation(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p := start(t, settings(t, db), app.Options{}, nil)
		me := p.person("me@example.org")
		device := me.enrol(publicID(1))
		want := map[int64]bool{}
		var mu sync.Mutex
		var group sync.WaitGroup
		for range 20 {
			cert := me.imported()
			key := me.apiKey(entry("certificates", cert, "read"))
			group.Go(func() { me.do("DELETE", key.path(), nil, 204) })
			group.Go(func() {
				a := key.try("POST", assignPath, map[string]any{"device_public_id": device.PublicID})
				if a.status != 204 && a.status != 401 {
					t.Errorf("%d %s", a.status, a.body)
				}
				mu.Lock()
				defer mu.Unlock()
				want[cert] = a.status == 204
			})
		}
		group.Wait()
		got := map[int64]bool{}
		for _, id := range me.assigned(device) {
			got[id] = true
		}
		for cert, assigned := range want {
			if got[cert] != assigned {
				t.Errorf("certificate %d: assigned %v, answered %v", cert, got[cert], assigned)
			}
		}
	})
}
