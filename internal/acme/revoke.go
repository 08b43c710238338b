package acme

import (
	"context"
	"crypto/x509"
	"strings"

	"github.com/mholt/acmez/v3/acme"
)

// Revoke revokes a certificate with the account that ordered it (RFC 8555
// section 7.6). reason is a code of RFC 5280 section 5.3.1, 0 for none. A
// certificate that is revoked already is no error.
func (c *Client) Revoke(ctx context.Context, account Account, leaf *x509.Certificate, reason int) error {
	_, err := c.do(ctx, opRevoke, func(ctx context.Context, protocol *acme.Client) error {
		return protocol.RevokeCertificate(ctx, account.wire(), leaf, nil, reason)
	})
	if p := AsProblem(err); p != nil && strings.TrimPrefix(p.Type, urn) == "alreadyRevoked" {
		return nil
	}
	return err
}
