package acme

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mholt/acmez/v3/acme"

	"certharbor.dev/certharbor/internal/outbound"
)

// RenewalWindow is the CA's suggestion when to renew (RFC 9773 section 4.2).
type RenewalWindow struct {
	// Start and End bound the time in which to renew, at a random moment.
	Start, End time.Time
	// Explanation is a URL about the window for a person, or "".
	Explanation string
	// RetryAfter is when to ask again, 0 if unsaid.
	RetryAfter time.Duration
}

// RenewalID gives the certificate's identifier in renewal information and in
// OrderRequest.Replaces (RFC 9773 section 4.1).
func RenewalID(leaf *x509.Certificate) (string, error) {
	if len(leaf.AuthorityKeyId) == 0 {
		return "", bad(opRenewalInfo, Permanent, ErrUnsupported, "the certificate has no authority key identifier")
	}
	id, err := acme.ARIUniqueIdentifier(leaf)
	if err != nil {
		return "", bad(opRenewalInfo, Permanent, fmt.Errorf("renewal id: %w", err), "the certificate has no usable serial number")
	}
	return id, nil
}

// RenewalInfo asks when to renew. The error wraps ErrUnsupported when the CA
// does not say. A malformed window is an error of class Retry: the caller then
// keeps its own schedule.
func (c *Client) RenewalInfo(ctx context.Context, leaf *x509.Certificate) (RenewalWindow, error) {
	ctx, cancel := context.WithTimeout(ctx, c.stepTime)
	defer cancel()
	id, err := RenewalID(leaf)
	if err != nil {
		return RenewalWindow{}, err
	}
	dir, err := c.directory(ctx)
	if err != nil {
		return RenewalWindow{}, err
	}
	if dir.renewalInfo == nil {
		return RenewalWindow{}, bad(opRenewalInfo, Permanent, ErrUnsupported, "the CA gives no renewal information")
	}
	header, body, err := c.get(ctx, opRenewalInfo, dir.renewalInfo.JoinPath(id))
	if err != nil {
		return RenewalWindow{}, err
	}
	var got acme.RenewalInfo
	if err := json.Unmarshal(body, &got); err != nil {
		return RenewalWindow{}, unreadable(opRenewalInfo, err)
	}
	start, end := got.SuggestedWindow.Start, got.SuggestedWindow.End
	if start.IsZero() || !end.After(start) {
		return RenewalWindow{}, bad(opRenewalInfo, Retry, ErrBadAnswer, "the CA gave no usable window")
	}
	out := RenewalWindow{Start: start, End: end, RetryAfter: outbound.RetryAfter(header, c.now(), maxRetryAfter)}
	if _, err := checkURL(got.ExplanationURL); err == nil {
		out.Explanation = got.ExplanationURL
	}
	return out, nil
}
