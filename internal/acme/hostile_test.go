package acme_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/outbound"
)

// scripted are the steps of an order in the sequence the client meets them.
func scripted() []hostile.Step {
	return []hostile.Step{
		hostile.Directory, hostile.NewNonce, hostile.NewAccount, hostile.NewOrder,
		hostile.Authorization, hostile.Challenge, hostile.Order, hostile.Finalize, hostile.Certificate,
	}
}

// Each way to misbehave, at each step: a typed error in bounded time that says
// nothing of what came, and the whole order succeeds once the CA recovers.
func TestHostileAnswersAtEveryStep(t *testing.T) {
	t.Parallel()
	type expected struct {
		class acme.Class
		text  string // in the error's line
	}
	retry := expected{acme.Retry, ""}
	ways := map[string]struct {
		answer    hostile.Answer
		want      expected
		needsBody bool
	}{
		"busy":           {hostile.Busy(3), expected{acme.Retry, "rateLimited"}, true},
		"broken":         {hostile.Broken(), expected{acme.Retry, "serverInternal"}, true},
		"bare 503":       {hostile.Status(http.StatusServiceUnavailable, "upstream-secret"), expected{acme.Retry, "Service Unavailable"}, false},
		"bare 403":       {hostile.Status(http.StatusForbidden, "upstream-secret"), expected{acme.Permanent, "Forbidden"}, false},
		"unauthorized":   {hostile.Problem(403, "unauthorized", "no right"), expected{acme.Permanent, "unauthorized"}, true},
		"rejected":       {hostile.Problem(400, "rejectedIdentifier", "not this name"), expected{acme.Permanent, "not this name"}, true},
		"account gone":   {hostile.Problem(400, "accountDoesNotExist", "who?"), expected{acme.AccountGone, "who?"}, true},
		"garbage":        {hostile.Garbage(), retry, true},
		"page":           {hostile.HTML(), retry, true},
		"truncated":      {hostile.Truncated(), retry, true},
		"wrong JSON":     {hostile.Body("application/json", `{"status":[1,2],"authorizations":7,"newNonce":{}}`), retry, true},
		"null":           {hostile.Body("application/json", `null`), retry, true},
		"broken problem": {hostile.Body("application/problem+json", `{"type":7`), retry, true},
		"huge":           {hostile.Huge(8 << 20), expected{acme.Permanent, "too large"}, true},
		"closes":         {hostile.Close(), expected{acme.Retry, "the connection failed"}, true},
		"redirect":       {hostile.Redirect("http://127.0.0.1:1/"), expected{acme.Permanent, "Temporary Redirect"}, false},
		"hangs":          {hostile.Hang(), expected{acme.Retry, "no answer in time"}, false},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, step := range scripted() {
				if step == hostile.NewNonce && way.needsBody {
					continue // a HEAD; the nonce is in the header
				}
				opts := acme.Options{}
				if name == "hangs" {
					opts.RequestTimeout = 200 * time.Millisecond
				}
				ca, f := hostileFlow(t, opts)
				ca.Next(step, way.answer)
				err := visitAll(t, f)
				p, ok := errors.AsType[*acme.Problem](err)
				switch {
				case !ok:
					t.Errorf("%s: error %v, want a Problem", step, err)
				case p.Class != way.want.class:
					t.Errorf("%s: class %s, want %s: %v (%v)", step, p.Class, way.want.class, p, p.Err)
				case !strings.Contains(p.Error(), way.want.text) || strings.Contains(p.Error(), "upstream") || strings.Contains(p.Error(), "Please"):
					t.Errorf("%s: line %q", step, p)
				case name == "busy" && p.RetryAfter != 3*time.Second:
					t.Errorf("%s: retry after %v", step, p.RetryAfter)
				}
				f.client = newClient(t, ca.DirectoryURL, ca.CABundlePEM, acme.Options{})
				if err := visitAll(t, f); err != nil {
					t.Errorf("%s: after recovery: %v", step, err)
				}
			}
		})
	}
}

// visitAll makes every step once, so that each is asked.
func visitAll(t *testing.T, f *flow) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, step := range []func(context.Context) error{f.register, f.placeOrder, f.authorize, f.look, f.finalize} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	_, err := f.download(ctx)
	return err
}

func TestBadNoncesAreRepeatedAtOnceAndNotForEver(t *testing.T) {
	t.Parallel()
	ca, f := hostileFlow(t, acme.Options{})
	for _, step := range scripted()[2:] {
		ca.Next(step, hostile.BadNonce(), hostile.BadNonce(), hostile.BadNonce())
	}
	if err := visitAll(t, f); err != nil {
		t.Fatalf("three bad nonces a step: %v", err)
	}
	before := ca.Requests(hostile.NewOrder)
	ca.Always(hostile.NewOrder, hostile.BadNonce())
	err := f.placeOrder(t.Context())
	if p := acme.AsProblem(err); p == nil || p.Class != acme.Retry || !errors.Is(err, acme.ErrBadAnswer) {
		t.Errorf("only bad nonces: %v", err)
	}
	if n := ca.Requests(hostile.NewOrder) - before; n != 10 {
		t.Errorf("%d requests, want 10", n)
	}
	// A nonce that could break out of its JSON string is not used.
	ca.Always(hostile.NewOrder, nil)
	ca.Always(hostile.NewNonce, hostile.Header("Replay-Nonce", `","alg":"none`))
	fresh := newFlow(t, newClient(t, ca.DirectoryURL, ca.CABundlePEM, acme.Options{}), "a.example")
	if err := fresh.register(t.Context()); acme.AsProblem(err) == nil || err.Error() != "new nonce: the CA gave no nonce" {
		t.Errorf("strange nonce: %v", err)
	}
}

// An order is placed once per call, whatever happens to the answer.
func TestALostAnswerPlacesNoSecondOrder(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]hostile.Answer{
		"closed after": hostile.CloseAfter(), "500": hostile.Broken(), "closed": hostile.Close(), "garbage": hostile.Garbage(),
	} {
		ca, f := hostileFlow(t, acme.Options{})
		if err := f.register(t.Context()); err != nil {
			t.Fatal(err)
		}
		ca.Always(hostile.NewOrder, answer)
		if err := f.placeOrder(t.Context()); acme.AsProblem(err) == nil {
			t.Errorf("%s: %v, want a Problem", name, err)
		}
		if n := ca.Requests(hostile.NewOrder); n != 1 {
			t.Errorf("%s: %d requests, want 1", name, n)
		}
	}
}

// Fault mode: every answer is lost once; repeating the step makes it good.
func TestEveryAnswerCanBeLostOnce(t *testing.T) {
	t.Parallel()
	ca := hostile.Start(t)
	var lose bool
	client := newClient(t, ca.DirectoryURL, ca.CABundlePEM, acme.Options{Fault: func(*http.Request) outbound.Fault {
		if lose {
			lose = false
			return outbound.LoseAnswer
		}
		return outbound.NoFault
	}})
	f := newFlow(t, client, "a.example")
	ctx := deadline(t)
	if err := f.register(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.placeOrder(ctx); err != nil {
		t.Fatal(err)
	}
	steps := []func(context.Context) error{f.register, f.authorize, f.look, f.finalize, f.look, func(ctx context.Context) error {
		_, err := f.download(ctx)
		return err
	}}
	for i, step := range steps {
		lose = true
		err := step(ctx)
		if p := acme.AsProblem(err); p == nil || p.Class != acme.Retry || !errors.Is(err, outbound.ErrLostAnswer) {
			t.Errorf("step %d: %v, want a lost answer", i, err)
		}
		if err := step(ctx); err != nil {
			t.Errorf("step %d again: %v (%v)", i, err, errors.Unwrap(err))
		}
	}
	if ca.Orders() != 1 || ca.Issued() != 1 {
		t.Errorf("%d orders, %d certificates; want one each", ca.Orders(), ca.Issued())
	}
}

func TestValidationProblemNamesTheName(t *testing.T) {
	t.Parallel()
	ca, f := hostileFlow(t, acme.Options{})
	detail := "10.0.0.1: Invalid response: \"LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI\"\r\n\x1b[31mforged line\u202e"
	ca.Next(hostile.Authorization, hostile.Invalid("a.example", "unauthorized", detail))
	err := visitAll(t, f)
	want := `urn:ietf:params:acme:error:unauthorized: 10.0.0.1: Invalid response: "(key authorization)" [31mforged line (a.example)`
	if err == nil || err.Error() != want || acme.AsProblem(err).Class != acme.Permanent {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestHostileTokens(t *testing.T) {
	t.Parallel()
	for _, token := range []string{
		"", "short", "../../../etc/passwd/aaaaaa", "aaaaaaaaaaaaaaaa/b", "aaaaaaaaaaaaaaaaaaa%2f", "aaaaaaaaaaaaaaaaaaa\n",
		"aaaaaaaaaaaaaaaaaaa.", "aaaaaaaaaaaaaaaaaaa\x00", "aaaaaaaaaaaaaaaaaaé", "aaaaaaaaaaaaaaaaa+/", "aaaaaaaaaaaaaaaa==",
		strings.Repeat("a", 257),
	} {
		ca, f := hostileFlow(t, acme.Options{})
		ca.Next(hostile.Authorization, hostile.Token(token))
		err := visitAll(t, f)
		if !errors.Is(err, acme.ErrBadToken) || acme.AsProblem(err).Class != acme.Permanent {
			t.Errorf("%q: %v, want a bad token", token, err)
		}
		if n := ca.Requests(hostile.Challenge); n != 0 {
			t.Errorf("%q: the challenge was accepted", token)
		}
	}
}

// What the CA says the key authorization is must not be served under its token.
func TestKeyAuthorizationIsOurs(t *testing.T) {
	t.Parallel()
	ca, f := hostileFlow(t, acme.Options{})
	ca.Always(hostile.Authorization, hostile.With(map[string]any{"challenges": []any{map[string]any{
		"type": "http-01", "status": "pending", "url": ca.URL + "/challenge/1/0",
		"token": "token_of_the_hostile_CA", "keyAuthorization": "<script>alert(1)</script>",
	}}}))
	var got acme.HTTP01
	f.present = func(c acme.HTTP01) { got = c }
	_ = visitAll(t, f)
	if !strings.HasPrefix(got.KeyAuthorization, "token_of_the_hostile_CA.") || len(got.KeyAuthorization) != len("token_of_the_hostile_CA.")+43 {
		t.Errorf("key authorization %q", got.KeyAuthorization)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", got, got, got, got), got.LogValue().String()} {
		if strings.Contains(text, got.KeyAuthorization) || strings.Contains(text, got.Token) {
			t.Errorf("printed as %q", text)
		}
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", f.account, f.account, f.account, f.account), f.account.LogValue().String()} {
		if strings.Trim(text, " ") != strings.Trim(strings.Repeat(f.account.URL+" ", strings.Count(text, f.account.URL)), " ") {
			t.Errorf("an account is printed as %q, not as its URL", text)
		}
	}
}

func TestWrongCertificates(t *testing.T) {
	t.Parallel()
	expired := func(ca *hostile.CA, _ *flow) hostile.Answer { ca.Lifetime(-time.Second); return nil }
	pemType := "application/pem-certificate-chain"
	for name, c := range map[string]struct {
		answer func(*hostile.CA, *flow) hostile.Answer
		cause  error
		class  acme.Class
	}{
		"another key":   {func(ca *hostile.CA, _ *flow) hostile.Answer { return ca.WrongKey() }, acme.ErrBadCertificate, acme.Permanent},
		"another name":  {func(ca *hostile.CA, f *flow) hostile.Answer { return ca.OtherNames(f.key.Public()) }, acme.ErrBadCertificate, acme.Permanent},
		"out of date":   {expired, acme.ErrBadCertificate, acme.Permanent},
		"endless chain": {func(ca *hostile.CA, _ *flow) hostile.Answer { return ca.EndlessChain(50) }, acme.ErrBadAnswer, acme.Retry},
		"no PEM":        {func(*hostile.CA, *flow) hostile.Answer { return hostile.Body(pemType, "hello") }, acme.ErrBadAnswer, acme.Retry},
		"empty":         {func(*hostile.CA, *flow) hostile.Answer { return hostile.Body(pemType, "") }, acme.ErrBadAnswer, acme.Retry},
		"truncated":     {func(*hostile.CA, *flow) hostile.Answer { return hostile.Truncated() }, acme.ErrBadAnswer, acme.Retry},
		"a key inside": {func(*hostile.CA, *flow) hostile.Answer {
			return hostile.Changed(func(b []byte) []byte {
				return append(b, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"...)
			})
		}, acme.ErrBadAnswer, acme.Retry},
		"no DER": {func(*hostile.CA, *flow) hostile.Answer {
			return hostile.Body(pemType, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		}, acme.ErrBadAnswer, acme.Retry},
		"strange issuer": {func(*hostile.CA, *flow) hostile.Answer {
			return hostile.Changed(func(b []byte) []byte {
				leaf, _, _ := strings.Cut(string(b), "-----END CERTIFICATE-----\n")
				return []byte(leaf + "-----END CERTIFICATE-----\n" + hostile.Start(t).IssuerRootPEM)
			})
		}, acme.ErrBadCertificate, acme.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca, f := hostileFlow(t, acme.Options{})
			ca.Always(hostile.Certificate, c.answer(ca, f))
			err := visitAll(t, f)
			if !errors.Is(err, c.cause) || acme.AsProblem(err).Class != c.class {
				t.Errorf("%v, want %v", err, c.cause)
			}
		})
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	ca, f := hostileFlow(t, acme.Options{})
	for _, rel := range []string{"up", "alternate"} {
		ca.Always(hostile.Certificate, hostile.Header("Link", "<"+ca.URL+"/cert/1>;rel=\""+rel+"\""))
		before := ca.Requests(hostile.Certificate)
		if err := visitAll(t, f); err != nil {
			t.Fatal(err)
		}
		if n := ca.Requests(hostile.Certificate) - before; n != 1 {
			t.Errorf("%s: %d downloads, want 1", rel, n)
		}
	}
	if n := ca.Requests(hostile.RenewalInfo); n != 0 {
		t.Errorf("%d requests for renewal information during an order", n)
	}
}
