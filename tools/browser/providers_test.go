package browser_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"certharbor.dev/certharbor/tools/browser"
)

// github is as much of GitHub as a browser sees, where everybody agrees at once.
func github(t *testing.T) string {
	t.Helper()
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/login/oauth/authorize", func(w http.ResponseWriter, r *http.Request) {
		back := r.FormValue("redirect_uri") + "?" + url.Values{"code": {"code"}, "state": {r.FormValue("state")}}.Encode()
		http.Redirect(w, r, back, http.StatusFound)
	})
	mux.HandleFunc("/login/oauth/access_token", answer(map[string]string{"access_token": "token", "token_type": "bearer"}))
	mux.HandleFunc("/api/v3/user", answer(map[string]any{"id": 4711, "login": "grace"}))
	mux.HandleFunc("/api/v3/user/emails", answer([]any{map[string]any{"email": "grace@example.org", "primary": true, "verified": true}}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// walletScript is a wallet as its extension puts it into a page, with the
// browser's own Ed25519.
const walletScript = `(async () => {
	const digits = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
	const pair = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify']);
	const key = new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey));
	let number = BigInt('0x' + [...key].map((b) => b.toString(16).padStart(2, '0')).join('')), address = '';
	for (; number > 0n; number /= 58n) address = digits[Number(number % 58n)] + address;
	for (const b of key) { if (b) break; address = '1' + address; }
	window.solana = {
		connect: async () => ({ publicKey: { toString: () => address } }),
		signMessage: async (message) => ({ signature: new Uint8Array(await crypto.subtle.sign('Ed25519', pair.privateKey, message)) }),
	};
	await show();
})()`

// TestProvidersOnTheAccountPage: somebody new comes from GitHub, binds a wallet,
// leaves, comes back with the wallet and unbinds GitHub, in a real browser.
func TestProvidersOnTheAccountPage(t *testing.T) {
	t.Parallel()
	s := start(t, "--github", "client_id=id,client_secret=secret,registration=open,url="+github(t), "--provider-allow-cidrs", "127.0.0.0/8")
	p := browser.Open(t)
	p.Go(s.url + "/account")
	p.Wait("location.hostname === 'localhost' && document.body.dataset.ready")
	p.Click("#providers button")
	p.Wait("document.getElementById('who').textContent === 'grace@example.org (fed; aal1)'")
	p.Wait("document.getElementById('bindings').textContent.startsWith('github: grace')")

	p.Eval(walletScript)
	p.Click("#bind button") // GitHub is bound, so this is the wallet
	message(p, "The wallet was bound")
	p.Click("#sign-out")
	message(p, "Signed out")
	p.Click("#providers button:nth-child(2)")
	message(p, "Welcome")
	p.Wait("document.getElementById('who').textContent === 'grace@example.org (swk; aal1)'")
	p.Click("#bindings li:first-child button")
	message(p, "The account was unbound")
	p.Wait("document.getElementById('bindings').textContent.startsWith('solana: ')")
	p.Click("#bindings li button")
	message(p, "This is the last way to sign in")

	// Back from the provider without the cookie of the beginning: a page that says so.
	p.Go(s.local() + "/auth/github/callback?code=code&state=unknown")
	p.Wait("document.querySelector('h1').textContent === 'Not signed in with GitHub'")
}
