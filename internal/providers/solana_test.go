package providers

import (
	"crypto/ed25519"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mr-tron/base58"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// wallet is a key pair as wallets have it.
type wallet struct {
	key     ed25519.PrivateKey
	address string
}

func newWallet(seed byte) wallet {
	key := ed25519.NewKeyFromSeed(append(make([]byte, 31), seed))
	return wallet{key, base58.Encode(key.Public().(ed25519.PublicKey))}
}

func (w wallet) sign(message string) string {
	return base58.Encode(ed25519.Sign(w.key, []byte(message)))
}

const someAddress = "7EqQdEULxWcraVx3mXKFjc84LhCkMGZCkRuDpvcMwJeK"

// ask gets the message to sign.
func (b *browser) ask(t testing.TB, w wallet) string {
	t.Helper()
	return data[struct{ Message string }](t, want(t, b.get("/auth/solana?address="+w.address), http.StatusOK, "")).Message
}

// answer sends the signature.
func (b *browser) answer(address, signature string) *httptest.ResponseRecorder {
	return b.get("/auth/solana?address=" + url.QueryEscape(address) + "&signature=" + url.QueryEscape(signature))
}

func TestSolana(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		w, b := newWallet(1), h.browser()
		message := b.ask(t, w)
		form := regexp.MustCompile(`^certs\.example\.org wants you to sign in with your Solana account:\n` + w.address +
			`\n\nSign in to CertHarbor\..*\n\nURI: https://certs\.example\.org\nVersion: 1\nNonce: [0-9a-f]{64}\nIssued At: 2023-11-14T22:13:20\.000Z\nExpiration Time: 2023-11-14T22:18:20\.000Z$`)
		if !form.MatchString(message) {
			t.Errorf("%s", message)
		}
		answer := want(t, b.answer(w.address, w.sign(message)), http.StatusOK, `"to":"/"`)
		user := b.who(t)
		if answer.Result().Cookies()[0].Name != "__Host-certharbor_session" || user == 0 || len(b.cookies) != 1 {
			t.Errorf("cookies %v, user %d", answer.Result().Cookies(), user)
		}
		if bound := b.bindings(t); len(bound) != 1 || bound[0].Provider != "solana" || bound[0].Subject != w.address {
			t.Errorf("%+v", bound)
		}
		again := h.browser()
		want(t, again.answer(w.address, w.sign(again.ask(t, w))), http.StatusOK, "")
		if again.who(t) != user || h.audited(t, user, "session.sign_in") != 2 {
			t.Errorf("user %d, then %d", user, again.who(t))
		}
		stored := h.number(t, "SELECT COUNT(*) FROM provider_attempts")
		if stored != 0 {
			t.Errorf("%d attempts are left", stored)
		}
	})
}

// TestThreats16SolanaFixation: a message is good once, in the browser that asked
// for it, for the wallet and the purpose it names, for five minutes.
func TestThreats16SolanaFixation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		w, other := newWallet(1), newWallet(2)
		const notBegun = "not begun in this browser"

		b := h.browser()
		message := b.ask(t, w)
		cookie := b.cookies["__Host-certharbor_wallet"]
		want(t, h.browser().answer(w.address, w.sign(message)), http.StatusUnauthorized, notBegun) // the attacker's, in the victim's browser
		want(t, b.answer(w.address, w.sign(message)), http.StatusOK, "")
		for _, replay := range []*browser{b, h.browser(), {h: h, cookies: map[string]string{"__Host-certharbor_wallet": cookie}}} { // reused nonce
			want(t, replay.answer(w.address, w.sign(message)), http.StatusUnauthorized, notBegun)
		}

		b = h.browser()
		message = b.ask(t, w)
		want(t, b.answer(other.address, other.sign(message)), http.StatusUnauthorized, notBegun) // another wallet
		want(t, b.answer(w.address, other.sign(message)), http.StatusUnauthorized, "signature is not that")
		want(t, b.answer(w.address, w.sign(message)), http.StatusUnauthorized, notBegun) // one answer, right or wrong

		b = h.browser()
		message = b.ask(t, w)
		want(t, b.answer(w.address, w.sign(strings.Replace(message, "Version: 1", "Version: 2", 1))), http.StatusUnauthorized, "signature is not that")

		b = h.browser()
		message = b.ask(t, w)
		h.advance(walletTime)
		want(t, b.answer(w.address, w.sign(message)), http.StatusUnauthorized, "taken too long")

		// A message to sign in binds nothing, and the reverse.
		b = h.signedIn(t, h.ada)
		message = b.ask(t, w)
		bind := map[string]any{"address": w.address, "signature": w.sign(message)}
		want(t, b.call("POST", "/auth/third-party-bindings/solana", bind), http.StatusUnauthorized, notBegun)
		message = data[struct{ Message string }](t, want(t, b.call("POST", "/auth/third-party-bindings/solana", map[string]any{"address": w.address}), http.StatusOK, "as user")).Message
		want(t, b.answer(w.address, w.sign(message)), http.StatusUnauthorized, notBegun)
		// In another session of the same browser neither.
		kept := b.cookies["__Host-certharbor_wallet"]
		b = h.signedIn(t, h.bob)
		b.cookies["__Host-certharbor_wallet"] = kept
		bind["signature"] = w.sign(message)
		want(t, b.call("POST", "/auth/third-party-bindings/solana", bind), http.StatusUnauthorized, notBegun)
		if h.number(t, "SELECT COUNT(*) FROM provider_bindings WHERE user_id IN ($1, $2)", h.ada, h.bob) != 0 {
			t.Error("bound")
		}
		if h.audited(t, 0, "session.sign_in_refused") < 3 || h.audited(t, h.bob, "user.bind_refused") != 1 {
			t.Error("the refusals are not in the log")
		}
	})
}

func TestBindAWallet(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		w, b := newWallet(1), h.signedIn(t, h.ada)
		begun := data[bindingAnswer](t, want(t, b.call("POST", "/auth/third-party-bindings/solana", map[string]any{"address": w.address}), http.StatusOK, ""))
		done := want(t, b.call("POST", "/auth/third-party-bindings/solana", map[string]any{"address": w.address, "signature": w.sign(begun.Message)}), http.StatusOK, "")
		if bound := data[bindingAnswer](t, done); bound.Binding == nil || bound.Binding.Subject != w.address {
			t.Errorf("%s", done.Body)
		}
		in := h.browser()
		want(t, in.answer(w.address, w.sign(in.ask(t, w))), http.StatusOK, "")
		if in.who(t) != h.ada {
			t.Errorf("signed in as %d", in.who(t))
		}
		other := h.signedIn(t, h.bob)
		begun = data[bindingAnswer](t, want(t, other.call("POST", "/auth/third-party-bindings/solana", map[string]any{"address": w.address}), http.StatusOK, ""))
		want(t, other.call("POST", "/auth/third-party-bindings/solana", map[string]any{"address": w.address, "signature": w.sign(begun.Message)}), http.StatusConflict, "somebody else")
		want(t, b.call("DELETE", "/auth/third-party-bindings/solana", nil), http.StatusNoContent, "")
		h.advance(16 * time.Minute)
		want(t, b.call("POST", "/auth/third-party-bindings/solana", map[string]any{"address": w.address}), http.StatusForbidden, "STEP_UP_REQUIRED")
	})
}

// forged are keys for which anybody can sign.
func forged(t testing.TB) [][]byte {
	t.Helper()
	var keys [][]byte
	for _, text := range append(smallOrder,
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // 1, written as p+1
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // 0, written as p
		"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // 18, not canonical
	) {
		key, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		signed := append([]byte{}, key...)
		signed[31] |= 0x80
		keys = append(keys, key, signed)
	}
	return keys
}

// TestKeysOfSmallOrder: for some of them ed25519.Verify accepts a signature that
// needs no secret, over every message.
func TestKeysOfSmallOrder(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	accepted := 0
	for _, key := range forged(t) {
		for _, r := range forged(t) {
			if ed25519.Verify(key, []byte("any message"), append(append([]byte{}, r...), make([]byte, 32)...)) {
				accepted++
				break
			}
		}
		want(t, h.browser().get("/auth/solana?address="+base58.Encode(key)), http.StatusBadRequest, "address: ")
	}
	if accepted == 0 {
		t.Error("no key of small order would be accepted; the rule is not tested")
	}
	want(t, h.browser().get("/auth/solana?address="+newWallet(7).address), http.StatusOK, "Nonce")
}

func TestWhatIsNoAddressOrSignature(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	w := newWallet(1)
	for _, address := range []string{
		"", "x", "0OIl", w.address[:30], w.address + "1", "1" + w.address, " " + w.address, w.address + "\n", strings.Repeat("1", 31), strings.Repeat("1", 32), strings.Repeat("1", 33),
		strings.Repeat("z", 44), base58.Encode(make([]byte, 33)), strings.Repeat("z", 5000), hex.EncodeToString(w.key[:32]), "é" + w.address[1:],
	} {
		want(t, h.browser().get("/auth/solana?address="+url.QueryEscape(address)), http.StatusBadRequest, "address")
	}
	good := w.sign("x")
	for _, signature := range []string{"x", good[:60], good + "1", "1" + good, base58.Encode(make([]byte, 63)), base58.Encode(make([]byte, 65)), strings.Repeat("z", 5000), hex.EncodeToString([]byte(good))} {
		want(t, h.browser().answer(w.address, signature), http.StatusBadRequest, "signature")
	}
	if n := h.number(t, "SELECT COUNT(*) FROM provider_attempts"); n != 0 {
		t.Errorf("%d attempts", n)
	}
}

// FuzzWallet: whatever comes as address and signature is judged without a panic,
// and what is accepted is written in the one way.
func FuzzWallet(f *testing.F) {
	w := newWallet(1)
	f.Add(w.address, w.sign("message"))
	f.Add(strings.Repeat("1", 32), strings.Repeat("1", 64))
	for _, key := range forged(f) {
		f.Add(base58.Encode(key), base58.Encode(append(key, key...)))
	}
	f.Add("0OIl", "é")
	f.Fuzz(func(t *testing.T, address, signature string) {
		if key, err := parseAddress(address); err == nil {
			if base58.Encode(key) != address || len(key) != ed25519.PublicKeySize || weak(key) {
				t.Errorf("%q was accepted", address)
			}
			for _, r := range forged(t) {
				if ed25519.Verify(key, []byte("message"), append(append([]byte{}, r...), make([]byte, 32)...)) {
					t.Errorf("%q: anybody can sign for it", address)
				}
			}
		}
		if signed, err := fromBase58("signature", signature, ed25519.SignatureSize); err == nil && base58.Encode(signed) != signature {
			t.Errorf("%q was accepted", signature)
		}
	})
}
