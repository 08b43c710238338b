package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"golang.org/x/oauth2"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/outbound"
)

// maxAnswer is how much of a provider's answer is read, in bytes.
const maxAnswer = 256 << 10

// bounded reads every answer within the limit before anybody sees it: the
// libraries that work on them read without one.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := outbound.ReadLimited(resp.Body, maxAnswer)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// statusError says that a provider answered with an unexpected status.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("the provider answered with status %d", int(e))
}

// onlyOK turns every other status into an error, for keys alone.
type onlyOK struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o onlyOK) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.next.RoundTrip(r)
	if err == nil && resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, statusError(resp.StatusCode)
	}
	return resp, err
}

func client(o outbound.Options) *http.Client {
	c := outbound.New(o)
	c.Transport = bounded{c.Transport}
	return c
}

// getJSON asks for a document. The error of any status but 200 is a statusError.
func getJSON(ctx context.Context, c *http.Client, address string, header http.Header, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return withoutURL(err)
	}
	if header != nil {
		r.Header = header
	}
	resp, err := c.Do(r)
	if err != nil {
		return withoutURL(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return statusError(resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return errGarbage
	}
	return nil
}

var errGarbage = errors.New("the provider's answer is not what it should be")

// withoutURL takes the URL out of an error of net/http: Weixin's hold secrets.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// retryAfter is when a browser may try a provider again that did not answer.
const retryAfter = 5 * time.Second

// unreachable says that the provider could not be asked, or answered nonsense.
func unreachable(title string, err error) *fault.Error {
	err = withoutURL(err)
	why := outbound.Public(err)
	if status, ok := errors.AsType[statusError](err); ok {
		why = fmt.Sprintf("it answered with status %d", int(status))
	} else if errors.Is(err, errGarbage) {
		why = "its answer makes no sense"
	}
	return fault.Unavailable(retryAfter, title+" could not be asked who you are: "+why+". Try again in a moment.", err)
}

// refused says that the provider, or what it sent, does not let anybody in.
func refused(title, reason string) *fault.Error {
	return fault.Unauthorized(title + " did not confirm this sign-in; begin it again.").Because(errors.New(reason))
}

// oauthWord is an error code as OAuth 2 has them (RFC 6749 section 5.2); other
// text from a provider is not kept.
var oauthWord = regexp.MustCompile(`^[a-z_]{1,60}$`)

// redeem trades the code of a callback for tokens (RFC 6749 section 4.1.3).
func redeem(ctx context.Context, c *http.Client, title string, config oauth2.Config, s secrets, code string) (*oauth2.Token, error) {
	config.RedirectURL = s.callback
	token, err := config.Exchange(context.WithValue(ctx, oauth2.HTTPClient, c), code, oauth2.VerifierOption(s.verifier))
	if err == nil {
		return token, nil
	}
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := answer.Response.StatusCode
		switch {
		case oauthWord.MatchString(answer.ErrorCode):
			return nil, refused(title, "the provider refused the code: "+answer.ErrorCode)
		case status >= http.StatusBadRequest && status < http.StatusInternalServerError:
			return nil, refused(title, fmt.Sprintf("the provider refused the code with status %d", status))
		case status != http.StatusOK:
			return nil, unreachable(title, statusError(status))
		}
		return nil, unreachable(title, errGarbage)
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return nil, unreachable(title, err)
	}
	return nil, unreachable(title, errGarbage) // the library quotes the answer
}
