package threats_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

const assignPath = "/apiv1/me/certificate-assign"

// certificate-assign, with every key that must not be able to (threats.md
// scenario 2) and with the one that must.
func TestCertificateAssignByKey(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p := apptest.Start(t, apptest.Settings(t, db), app.Options{}, nil)
		alice, bob := p.Person("alice@example.org"), p.Person("bob@example.org")
		mine, foreignDevice := alice.Enrol(apptest.PublicID(1)), bob.Enrol(apptest.PublicID(2))
		cert, other, foreign := alice.Imported(), alice.Imported(), bob.Imported()
		body := map[string]any{"device_public_id": mine.PublicID}
		good := alice.APIKey(apptest.Entry("certificates", cert, "read"))
		for _, test := range []struct {
			name         string
			key          *apptest.APIKey
			status, code int
		}{
			{"*", alice.APIKey(apptest.Entry("certificates", "*", "read")), 403, 5022},
			{"* beside one", alice.APIKey(apptest.Entry("certificates", cert, "read"), apptest.Entry("certificates", "*", "read")), 403, 5022},
			{"two", alice.APIKey(apptest.Entry("certificates", cert, "read"), apptest.Entry("certificates", other, "read")), 400, 5000},
			{"issue alone", alice.APIKey(apptest.Entry("certificates", cert, "issue")), 403, 5022},
			{"write alone", alice.APIKey(apptest.Entry("certificates", cert, "write")), 403, 5022},
			{"another scope", alice.APIKey(apptest.Entry("devices", "*", "read", "write")), 403, 5022},
			{"a foreign certificate", alice.APIKey(apptest.Entry("certificates", foreign, "read")), 404, 5003},
			{"an absent certificate", alice.APIKey(apptest.Entry("certificates", 99999, "read")), 404, 5003},
			{"bob's key for alice's certificate", bob.APIKey(apptest.Entry("certificates", cert, "read")), 404, 5003},
		} {
			a := test.key.Try("POST", assignPath, body)
			if problem := a.Check(t, test.name, nil); problem == nil || a.Status != test.status || problem.Code != test.code {
				t.Errorf("%s: %d %s, want %d/%d", test.name, a.Status, a.Body, test.status, test.code)
			}
		}
		device := func(id string) *apptest.Answer {
			return good.Try("POST", assignPath, map[string]any{"device_public_id": id})
		}
		apptest.Same(t, "a foreign device", device(foreignDevice.PublicID), device(apptest.PublicID(77)), 404)
		good.Do("POST", assignPath, map[string]any{"device_public_id": "1"}, 400)
		good.Do("POST", assignPath, map[string]any{}, 400)
		good.Do("POST", fmt.Sprintf("/apiv1/users/%d/certificate-assign", bob.UserID), body, 403)
		good.Do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", mine.ID), map[string]any{"cert_id": cert}, 403)
		alice.Do("POST", assignPath, body, 401)
		mine.Do("POST", assignPath, body, 401)
		if got := append(alice.Assigned(mine), bob.Assigned(foreignDevice)...); len(got) != 0 {
			t.Fatalf("assigned by refused keys: %v", got)
		}

		// The certificate is the key's, whatever else the body says.
		good.Do("POST", assignPath, map[string]any{
			"device_public_id": strings.ToUpper(mine.PublicID), "cert_id": other, "certificate_id": other, "user_id": bob.UserID, "device_id": foreignDevice.ID,
		}, 204)
		good.Do("POST", assignPath, body, 204)
		if got := alice.Assigned(mine); len(got) != 1 || got[0] != cert {
			t.Errorf("assigned %v, want %d", got, cert)
		}
		mine.Install(t, cert)
		if got := p.Audited(good); len(got) != 1 || got[0] != "certificate.assign" {
			t.Errorf("the log has %v of the key", got)
		}
	})
}

// A key that is revoked, expires, or loses the permission while its request is
// under way assigns nothing; nor does one whose owner is disabled meanwhile.
func TestKeyChangesMidRequest(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p := apptest.Start(t, apptest.Settings(t, db), app.Options{}, nil)
		me := p.Person("me@example.org")
		device, cert := me.Enrol(apptest.PublicID(1)), me.Imported()
		for _, test := range []struct {
			name   string
			change func(k *apptest.APIKey)
			status int
		}{
			{"revoked", func(k *apptest.APIKey) { me.Do("DELETE", k.Path(), nil, 204) }, 401},
			{"less permitted", func(k *apptest.APIKey) {
				me.Do("PATCH", k.Path(), map[string]any{"permissions": []any{apptest.Entry("devices", "*", "read")}}, 200)
			}, 403},
			{"for another certificate", func(k *apptest.APIKey) {
				me.Do("PATCH", k.Path(), map[string]any{"permissions": []any{apptest.Entry("certificates", cert+1, "read")}}, 200)
			}, 403},
			{"expired", func(k *apptest.APIKey) { p.Execute("UPDATE api_keys SET expires_at = 1 WHERE id = $1", k.ID) }, 401},
			{"of a disabled user", func(*apptest.APIKey) { p.Execute("UPDATE users SET status = 'DISABLED' WHERE id = $1", me.UserID) }, 401},
		} {
			key := me.APIKey(apptest.Entry("certificates", cert, "read"))
			finish := key.InFlight(t, assignPath, map[string]any{"device_public_id": device.PublicID})
			test.change(key)
			if status, text := finish(); status != test.status {
				t.Errorf("%s: %d %s, want %d", test.name, status, text, test.status)
			}
			p.Execute("UPDATE users SET status = 'ACTIVE' WHERE id = $1", me.UserID)
		}
		if got := me.Assigned(device); len(got) != 0 {
			t.Errorf("assigned %v", got)
		}
	})
}

// Twenty keys assign while they are revoked: each either assigned before its
// revocation was answered, or is refused and assigned nothing.
func TestAssignRacesRevocation(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p := apptest.Start(t, apptest.Settings(t, db), app.Options{}, nil)
		me := p.Person("me@example.org")
		device := me.Enrol(apptest.PublicID(1))
		want := map[int64]bool{}
		var mu sync.Mutex
		var group sync.WaitGroup
		for range 20 {
			cert := me.Imported()
			key := me.APIKey(apptest.Entry("certificates", cert, "read"))
			group.Go(func() { me.Do("DELETE", key.Path(), nil, 204) })
			group.Go(func() {
				a := key.Try("POST", assignPath, map[string]any{"device_public_id": device.PublicID})
				if a.Status != 204 && a.Status != 401 {
					t.Errorf("%d %s", a.Status, a.Body)
				}
				mu.Lock()
				defer mu.Unlock()
				want[cert] = a.Status == 204
			})
		}
		group.Wait()
		got := map[int64]bool{}
		for _, id := range me.Assigned(device) {
			got[id] = true
		}
		for cert, assigned := range want {
			if got[cert] != assigned {
				t.Errorf("certificate %d: assigned %v, answered %v", cert, got[cert], assigned)
			}
		}
	})
}
