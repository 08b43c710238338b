package providers

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// through sets the door of every provider of the settings.
func through(settings Settings, door Door) func(*Deps) {
	return func(d *Deps) {
		github, weixin, corp := *settings.GitHub, *settings.Weixin, settings.OIDC[0]
		d.Settings = Settings{GitHub: &github, Weixin: &weixin, OIDC: []OIDC{corp}, Solana: true}
		d.Settings.GitHub.Door, d.Settings.Weixin.Door, d.Settings.OIDC[0].Door, d.Settings.Wallet = door, door, door, door
	}
}

// TestEveryDoorKeepsToTheRegistration goes through every way to sign in with
// every setting: a stranger gets in, waits or is refused, and makes no row when
// refused; one who was bound before always signs in.
func TestEveryDoorKeepsToTheRegistration(t *testing.T) {
	t.Parallel()
	const none = ""
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var settings Settings
		before := build(t, db, func(d *Deps) { settings = d.Settings })
		known := grace()
		known.Email = none
		for _, k := range before.kinds() {
			want(t, before.browser().signIn(t, k, known), http.StatusSeeOther, "")
		}
		purse := newWallet(99)
		b := before.browser()
		want(t, b.answer(purse.address, purse.sign(b.ask(t, purse))), http.StatusOK, "")

		for i, c := range []struct {
			mode    identity.RegistrationMode
			door    Door
			address string // of the stranger
			status  string // of the new user
		}{
			{mode: "closed"}, {mode: "approval", status: "PENDING"}, {mode: "open", status: "ACTIVE"},
			{mode: "closed", door: Door{Registration: "open"}, status: "ACTIVE"},
			{mode: "open", door: Door{Registration: "closed"}},
			{mode: "open", door: Door{Domains: []string{"example.org"}}, address: "a%d@sub.example.org"},
			{mode: "open", door: Door{Domains: []string{"example.org"}}},
			{mode: "approval", door: Door{Domains: []string{"example.net", "example.org"}}, address: "b%d@Example.org", status: "PENDING"},
			{mode: "closed", door: Door{Registration: "open", Domains: []string{"example.org"}}, address: "c%d@example.org", status: "ACTIVE"},
			{mode: "closed", door: Door{Domains: []string{"example.org"}}, address: "d%d@example.org"},
		} {
			h := buildIn(t, db, c.mode, through(settings, c.door))
			h.github, h.weixin, h.corp = before.github, before.weixin, before.corp
			for n, k := range h.kinds() {
				want(t, h.browser().signIn(t, k, known), http.StatusSeeOther, "")
				stranger := grace()
				stranger.ID, stranger.Name, stranger.Email = strconv.Itoa(5000+i), none, none
				status := c.status
				if c.address != none {
					stranger.Email = fmt.Sprintf(c.address, n)
					if k.code == "weixin" { // which has no addresses
						status = none
					}
				}
				users := h.number(t, "SELECT COUNT(*) FROM users")
				w := h.browser().signIn(t, k, stranger)
				h.outcome(t, fmt.Sprintf("%+v at %s", c, k.code), w.Code, http.StatusSeeOther, status, users)
			}
			b := h.browser()
			want(t, b.answer(purse.address, purse.sign(b.ask(t, purse))), http.StatusOK, "")
			users := h.number(t, "SELECT COUNT(*) FROM users")
			other, status := newWallet(byte(i)), c.status
			if len(c.door.Domains) > 0 {
				status = none
			}
			w := b.answer(other.address, other.sign(b.ask(t, other)))
			h.outcome(t, fmt.Sprintf("%+v with a wallet", c), w.Code, http.StatusOK, status, users)
		}
	})
}

// outcome compares the answer to a stranger and the newest user.
func (h *house) outcome(t *testing.T, what string, got, good int, status string, users int64) {
	t.Helper()
	more := int64(1)
	if status == "" {
		more = 0
	}
	if status != "ACTIVE" {
		good = http.StatusForbidden
	}
	if n := h.number(t, "SELECT COUNT(*) FROM users") - users; got != good || n != more {
		t.Errorf("%s: %d with %d users more, want %d with %d", what, got, n, good, more)
		return
	}
	if more == 1 && h.number(t, "SELECT COUNT(*) FROM users WHERE status = $1 AND id = (SELECT MAX(id) FROM users)", status) != 1 {
		t.Errorf("%s: the user is not %s", what, status)
	}
}
