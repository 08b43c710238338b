package acme

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// The states of orders and authorizations (RFC 8555 section 7.1.6).
const (
	StatusPending     = acme.StatusPending
	StatusReady       = acme.StatusReady
	StatusProcessing  = acme.StatusProcessing
	StatusValid       = acme.StatusValid
	StatusInvalid     = acme.StatusInvalid
	StatusDeactivated = acme.StatusDeactivated
	StatusExpired     = acme.StatusExpired
	StatusRevoked     = acme.StatusRevoked
)

// maxAuthorizations bounds the requests one order can cost.
const maxAuthorizations = 200

// OrderRequest says what to order.
type OrderRequest struct {
	// Names are DNS names in A-label form, wildcards included, or IP addresses.
	Names []string
	// NotAfter is the wished end of validity, zero for the CA's choice.
	NotAfter time.Time
	// Profile is one of Meta.Profiles, "" for the CA's choice.
	Profile string
	// Replaces is the RenewalID of the certificate to be replaced, or "". It is
	// left out for a CA without renewal information (RFC 9773 section 5).
	Replaces string
}

// Order is an order as the CA last showed it.
type Order struct {
	URL, Status    string
	Names          []string
	Authorizations []string // URLs
	FinalizeURL    string
	CertificateURL string // once Status is valid
	Expires        time.Time
	// RetryAfter is the wished wait before the next look, 0 if unsaid.
	RetryAfter time.Duration
	// Problem says why Status is invalid, when the CA says it here.
	Problem *Problem
}

// NewOrder places an order (RFC 8555 section 7.4). The URL of the answer is to
// be saved before anything else, since placing again makes a second order.
func (c *Client) NewOrder(ctx context.Context, account Account, r OrderRequest) (Order, error) {
	meta, err := c.Meta(ctx)
	if err != nil {
		return Order{}, err
	}
	if _, offered := meta.Profiles[r.Profile]; r.Profile != "" && !offered {
		return Order{}, bad(opNewOrder, Permanent, ErrUnsupported, "the CA does not offer the profile "+clean(r.Profile, 100))
	}
	if !meta.RenewalInfo {
		r.Replaces = ""
	}
	order, err := c.newOrder(ctx, account, r)
	if p := AsProblem(err); p != nil && r.Replaces != "" && strings.TrimPrefix(p.Type, urn) == "alreadyReplaced" {
		r.Replaces = "" // another order named the same predecessor first
		return c.newOrder(ctx, account, r)
	}
	return order, err
}

func (c *Client) newOrder(ctx context.Context, account Account, r OrderRequest) (Order, error) {
	request := acme.Order{Profile: r.Profile, Replaces: r.Replaces}
	for _, name := range r.Names {
		request.Identifiers = append(request.Identifiers, acme.Identifier{Type: identifierType(name), Value: name})
	}
	if !r.NotAfter.IsZero() {
		request.NotAfter = &r.NotAfter
	}
	var got acme.Order
	s, err := c.do(ctx, opNewOrder, func(ctx context.Context, protocol *acme.Client) (err error) {
		got, err = protocol.NewOrder(ctx, account.wire(), request)
		return err
	})
	if err != nil {
		return Order{}, err
	}
	return c.order(opNewOrder, s, got)
}

// Order looks at an order. The class of the error is OrderGone when the CA no
// longer knows it.
func (c *Client) Order(ctx context.Context, account Account, url string) (Order, error) {
	var got acme.Order
	s, err := c.do(ctx, opOrder, func(ctx context.Context, protocol *acme.Client) (err error) {
		got, err = protocol.GetOrder(ctx, account.wire(), acme.Order{Location: url})
		return err
	})
	if err != nil {
		return Order{}, err
	}
	got.Location = url
	return c.order(opOrder, s, got)
}

// Finalize sends the CSR (DER) for an order that is ready (RFC 8555 section
// 7.4) and gives the order as it then stands, often still processing. For an
// order that was finalised before it gives the order as it stands, so it may
// be repeated with a CSR of the same key.
func (c *Client) Finalize(ctx context.Context, account Account, order Order, csr []byte) (Order, error) {
	request := acme.Order{Location: order.URL, Finalize: order.FinalizeURL, Authorizations: order.Authorizations}
	s, err := c.do(ctx, opFinalize, func(ctx context.Context, protocol *acme.Client) error {
		_, err := protocol.FinalizeOrder(ctx, account.wire(), request, csr)
		if s := ctx.Value(stepKey{}).(*step); s.answered {
			return nil // the library's view of the state is stricter than ours; the answer is read below
		}
		return err
	})
	if p := AsProblem(err); p != nil && strings.TrimPrefix(p.Type, urn) == "orderNotReady" {
		return c.notReady(ctx, account, order, p)
	}
	if err != nil {
		return Order{}, err
	}
	var got acme.Order
	if err := json.Unmarshal(s.body, &got); err != nil || !s.json {
		return Order{}, unreadable(opFinalize, fmt.Errorf("json %t: %w", s.json, err))
	}
	got.Location = order.URL
	return c.order(opFinalize, s, got)
}

// notReady answers for an order that the CA will not finalise: it was
// finalised before, or has become invalid, or an authorization is still open.
func (c *Client) notReady(ctx context.Context, account Account, order Order, why *Problem) (Order, error) {
	now, err := c.Order(ctx, account, order.URL)
	if err != nil {
		return Order{}, err
	}
	if now.Status == StatusReady {
		why.Class = Retry
		return Order{}, why
	}
	return now, nil
}

// order checks what the CA shows.
func (c *Client) order(op string, s *step, got acme.Order) (Order, error) {
	out := Order{
		URL: got.Location, Status: got.Status, Authorizations: got.Authorizations, FinalizeURL: got.Finalize,
		CertificateURL: got.Certificate, Expires: got.Expires, RetryAfter: s.retryAfter,
	}
	for _, id := range got.Identifiers {
		out.Names = append(out.Names, clean(id.Value, 253))
	}
	states := []string{StatusPending, StatusReady, StatusProcessing, StatusValid, StatusInvalid}
	switch {
	case !slices.Contains(states, out.Status):
		return Order{}, bad(op, Retry, ErrBadAnswer, "the CA gave an order without a known status")
	case len(out.Authorizations) > maxAuthorizations:
		return Order{}, bad(op, Permanent, ErrBadAnswer, "the CA asks for too many authorizations")
	case out.URL == "" || out.Status != StatusInvalid && out.FinalizeURL == "":
		return Order{}, bad(op, Retry, ErrBadAnswer, "the CA gave an order without its URLs")
	case out.Status == StatusValid && out.CertificateURL == "":
		return Order{}, bad(op, Retry, ErrBadAnswer, "the CA gave a valid order without a certificate")
	}
	urls := append([]string{out.URL, out.FinalizeURL, out.CertificateURL}, out.Authorizations...)
	if err := checkURLs(op, urls...); err != nil {
		return Order{}, err
	}
	if got.Error != nil {
		out.Problem = stated(opOrder, *got.Error, "")
	}
	return out, nil
}

// stated makes a Problem of one that stands inside a resource. The resource is
// dead; where the cause was the CA's own, a new order may succeed.
func stated(op string, p acme.Problem, name string) *Problem {
	doc := document{Type: p.Type, Title: p.Title, Detail: p.Detail}
	out := doc.problem(op)
	for _, s := range p.Subproblems[:min(len(p.Subproblems), maxParts)] {
		out.Parts = append(out.Parts, Part{clean(s.Type, 200), clean(s.Detail, maxLine), clean(s.Identifier.Value, 253)})
	}
	if name != "" && len(out.Parts) == 0 {
		out.Parts = []Part{{Identifier: clean(name, 253)}}
	}
	out.Class = classify(op, 0, p.Type)
	if out.Class == Retry {
		out.Class = OrderGone
	}
	return out
}

func identifierType(name string) string {
	if _, err := netip.ParseAddr(name); err == nil {
		return "ip"
	}
	return "dns"
}
