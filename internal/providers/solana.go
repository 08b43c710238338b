package providers

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"time"

	"github.com/mr-tron/base58"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

func walletInfo() Info {
	return Info{Provider: kindSolana, Kind: kindSolana, Title: "Solana wallet", URL: "/auth/solana"}
}

// walletMethod is a proof with a key of which nobody knows where it is kept.
func walletMethod() identity.Method { return identity.Method{AMR: []string{"swk"}, ACR: "aal1"} }

// maxBase58 is longer than any address or signature: 64 bytes are at most 88.
const maxBase58 = 100

// fromBase58 reads the one text that stands for so many bytes.
func fromBase58(field, text string, size int) ([]byte, error) {
	if len(text) <= maxBase58 {
		if decoded, err := base58.Decode(text); err == nil && len(decoded) == size {
			return decoded, nil
		}
	}
	return nil, fault.Invalid(field, "must be %d bytes in base58", size)
}

// parseAddress reads an address: an Ed25519 public key that somebody can have.
func parseAddress(address string) (ed25519.PublicKey, error) {
	if address == "" {
		return nil, fault.Invalid("address", "is required, also beside a signature")
	}
	key, err := fromBase58("address", address, ed25519.PublicKeySize)
	if err == nil && weak(key) {
		err = fault.Invalid("address", "is no public key that a wallet can have")
	}
	return key, err
}

// fieldPrime is that of Curve25519.
func fieldPrime() *big.Int {
	p := new(big.Int).Lsh(big.NewInt(1), 255)
	return p.Sub(p, big.NewInt(19))
}

// smallOrder are the y of the points whose order divides 8 (RFC 7748 section
// 6.1 warns of them): whoever names one as a key can sign without a secret.
var smallOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

// weak reports whether a key is of small order or written in a way that is not
// the one for its point (RFC 8032 section 5.1.3).
func weak(key []byte) bool {
	y := bytes.Clone(key)
	y[len(y)-1] &= 0x7f // the sign of x
	if slices.Contains(smallOrder, hex.EncodeToString(y)) {
		return true
	}
	slices.Reverse(y)
	return new(big.Int).SetBytes(y).Cmp(fieldPrime()) >= 0
}

// Message is what a wallet is to sign.
type Message struct {
	Text      string
	ExpiresAt int64 // Unix ms
}

// message is the text, in the form of Sign-In With Solana.
func (s *Service) message(a attempt, userID int64, address, nonce string) string {
	statement := "Sign in to CertHarbor. This moves no money and costs none."
	if a.purpose == toBind {
		statement = fmt.Sprintf("Let this wallet sign in as user %d of CertHarbor. This moves no money and costs none.", userID)
	}
	stamp := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
	return s.host + " wants you to sign in with your Solana account:\n" + address + "\n\n" + statement + "\n\nURI: " + s.origin +
		"\nVersion: 1\nNonce: " + nonce + "\nIssued At: " + stamp(a.expiresAt-walletTime.Milliseconds()) + "\nExpiration Time: " + stamp(a.expiresAt)
}

// nonceOf is the nonce of the message for a browser and an address.
func nonceOf(secret string, p purpose, address string) string {
	return hex.EncodeToString(derive(secret, "wallet "+string(p), address))
}

// walletAttempt is what the caller of ctx would begin.
func walletAttempt(ctx context.Context, p purpose) (a attempt, userID int64) {
	a = attempt{provider: kindSolana, purpose: p, returnTo: home}
	if caller := access.From(ctx); p == toBind {
		a.sessionID, userID = caller.SessionID, caller.UserID
	}
	return a, userID
}

// startWallet makes a message for the wallet with the address, and the cookie
// that ties it to the browser. Errors: 5000 for a bad address, 5003 when wallets
// are switched off, 5013 for too many.
func (s *Service) startWallet(ctx context.Context, p purpose, address string) (Message, *http.Cookie, error) {
	if !s.wallet {
		return Message{}, nil, errNotSetUp()
	}
	if _, err := parseAddress(address); err != nil {
		return Message{}, nil, err
	}
	a, userID := walletAttempt(ctx, p)
	if err := s.limiter.Peek(ctx, s.hit(ctx, p)); err != nil {
		return Message{}, nil, err
	}
	secret := seal.NewToken("", secretSize)
	nonce := nonceOf(secret, p, address)
	a.expiresAt = s.now().Add(walletTime).UnixMilli()
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		return s.store(ctx, tx, a, nonce, secret)
	})
	if err != nil {
		return Message{}, nil, err
	}
	return Message{s.message(a, userID, address, nonce), a.expiresAt}, s.browser(ctx, walletCookie, secret), nil
}

// proved gives the account of the wallet that signed the browser's message,
// which is used up.
func (s *Service) proved(ctx context.Context, p purpose, address, signature string) (attempt, account, error) {
	if !s.wallet {
		return attempt{}, account{}, errNotSetUp()
	}
	key, err := parseAddress(address)
	if err != nil {
		return attempt{}, account{}, err
	}
	signed, err := fromBase58("signature", signature, ed25519.SignatureSize)
	if err != nil {
		return attempt{}, account{}, err
	}
	nonce := nonceOf(s.browserSecret(ctx, walletCookie), p, address)
	a, err := s.take(ctx, walletInfo(), nonce, s.browserSecret(ctx, walletCookie))
	if err != nil {
		return a, account{}, err
	}
	_, userID := walletAttempt(ctx, p)
	if !ed25519.Verify(key, []byte(s.message(a, userID, address, nonce)), signed) {
		err := fault.Unauthorized("The signature is not that of this wallet over this message; ask for a new message and sign it as it is.")
		return a, account{}, s.refuse(ctx, a, err.Because(errors.New("the signature does not fit")))
	}
	return a, account{issuer: kindSolana, subject: address, name: address[:4] + "…" + address[len(address)-4:]}, nil
}

// walletSignIn signs in whoever has the wallet.
func (s *Service) walletSignIn(ctx context.Context, address, signature string) (identity.User, []*http.Cookie, error) {
	a, who, err := s.proved(ctx, toSignIn, address, signature)
	if err != nil {
		return identity.User{}, nil, err
	}
	user, session, err := s.signIn(ctx, a, who, walletMethod())
	return user, append(session, s.browser(ctx, walletCookie, "")), err
}

// walletBind adds the wallet to the caller's ways to sign in.
func (s *Service) walletBind(ctx context.Context, address, signature string) (identity.Binding, *http.Cookie, error) {
	a, who, err := s.proved(ctx, toBind, address, signature)
	if err != nil {
		return identity.Binding{}, nil, err
	}
	bound, err := s.bind(ctx, a, who)
	return bound, s.browser(ctx, walletCookie, ""), err
}
