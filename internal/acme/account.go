package acme

import (
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"log/slog"
	"strings"

	"github.com/mholt/acmez/v3/acme"
)

// Registration asks for an account.
type Registration struct {
	Key *ecdsa.PrivateKey
	// Contacts are e-mail addresses or URLs, none is allowed.
	Contacts []string
	// TermsAgreed says that the user agreed to the CA's terms of service.
	TermsAgreed bool
	// EAB binds the account to one the user has outside ACME, nil for none.
	EAB *EAB
}

// EAB is an external account binding (RFC 8555 section 7.3.4).
type EAB struct {
	KeyID string
	// HMACKey is base64url, as CAs hand it out; padding and the standard
	// alphabet are accepted too.
	HMACKey string
}

// LogValue keeps the HMAC key out of logs.
func (e EAB) LogValue() slog.Value { return slog.StringValue(e.KeyID) }

// String keeps the HMAC key out of messages.
func (e EAB) String() string { return e.KeyID }

// Register makes the account of a key, or finds the one that exists (RFC 8555
// sections 7.3 and 7.3.1). The class of the error is AccountGone when the CA
// has deactivated or revoked it: then a new key is needed.
func (c *Client) Register(ctx context.Context, r Registration) (Account, error) {
	if err := r.check(); err != nil {
		return Account{}, err
	}
	if r.EAB != nil {
		// Some CAs accept a binding once, so a registration whose answer was
		// lost is looked for before the binding is used again.
		account, err := c.find(ctx, r.Key)
		if err == nil || AsProblem(err).Class != AccountGone || AsProblem(err).Type == "" {
			return account, err
		}
	}
	request := acme.Account{PrivateKey: r.Key, TermsOfServiceAgreed: r.TermsAgreed, Contact: contacts(r.Contacts)}
	return c.postAccount(ctx, func(ctx context.Context, protocol *acme.Client) (acme.Account, error) {
		if r.EAB != nil {
			eab := acme.EAB{KeyID: r.EAB.KeyID, MACKey: base64url(r.EAB.HMACKey)}
			if err := request.SetExternalAccountBinding(ctx, protocol, eab); err != nil {
				return acme.Account{}, err
			}
		}
		return protocol.NewAccount(ctx, request)
	}, r.Key)
}

// find looks for the account of a key without making one.
func (c *Client) find(ctx context.Context, key *ecdsa.PrivateKey) (Account, error) {
	return c.postAccount(ctx, func(ctx context.Context, protocol *acme.Client) (acme.Account, error) {
		return protocol.GetAccount(ctx, acme.Account{PrivateKey: key})
	}, key)
}

func (r Registration) check() error {
	if r.Key == nil {
		return bad(opRegister, Permanent, ErrUnsupported, "the account has no key")
	}
	if r.EAB == nil {
		return nil
	}
	if _, err := base64.RawURLEncoding.DecodeString(base64url(r.EAB.HMACKey)); err != nil || r.EAB.KeyID == "" || r.EAB.HMACKey == "" {
		return bad(opRegister, Permanent, ErrUnsupported, "the external account binding needs a key id and a base64url HMAC key")
	}
	return nil
}

func (c *Client) postAccount(ctx context.Context, post func(context.Context, *acme.Client) (acme.Account, error), key *ecdsa.PrivateKey) (Account, error) {
	var got acme.Account
	_, err := c.do(ctx, opRegister, func(ctx context.Context, protocol *acme.Client) (err error) {
		got, err = post(ctx, protocol)
		return err
	})
	if err != nil {
		return Account{}, err
	}
	if _, err := checkURL(got.Location); err != nil {
		return Account{}, bad(opRegister, Retry, ErrBadAnswer, "the CA gave no account URL")
	}
	if got.Status == acme.StatusDeactivated || got.Status == acme.StatusRevoked {
		return Account{}, bad(opRegister, AccountGone, nil, "the account is "+got.Status)
	}
	return Account{URL: got.Location, Key: key}, nil
}

// Deactivate ends an account for good (RFC 8555 section 7.3.6). An account
// that is gone already is no error.
func (c *Client) Deactivate(ctx context.Context, account Account) error {
	_, err := c.do(ctx, opDeactivate, func(ctx context.Context, protocol *acme.Client) error {
		request := account.wire()
		request.Status = acme.StatusDeactivated
		_, err := protocol.UpdateAccount(ctx, request)
		return err
	})
	if p := AsProblem(err); p != nil && (p.Class == AccountGone || p.Type == urn+"unauthorized") {
		return nil
	}
	return err
}

// contacts makes URLs of e-mail addresses (RFC 8555 section 7.3).
func contacts(in []string) []string {
	var out []string
	for _, contact := range in {
		if !strings.Contains(contact, ":") {
			contact = "mailto:" + contact
		}
		out = append(out, contact)
	}
	return out
}

// base64url turns any base64 form into the unpadded URL form.
func base64url(text string) string {
	return strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(strings.TrimSpace(text))
}
