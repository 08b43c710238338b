package acme

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// directoryLife is how long a directory is used before it is fetched again.
const directoryLife = time.Hour

// Meta is what a directory says about its CA.
type Meta struct {
	// TermsOfService is the URL of the terms, "" when there are none.
	TermsOfService string
	// ExternalAccountRequired says that registering needs an EAB.
	ExternalAccountRequired bool
	// Profiles maps the names of certificate profiles to descriptions.
	Profiles map[string]string
	// RenewalInfo says that the CA suggests when to renew (RFC 9773).
	RenewalInfo bool
}

// loaded is a directory in use.
type loaded struct {
	protocol    *acme.Client
	fetched     time.Time
	meta        Meta
	renewalInfo *url.URL
}

// Meta fetches what the directory says about the CA, or gives it from memory
// when it is younger than an hour.
func (c *Client) Meta(ctx context.Context) (Meta, error) {
	ctx, cancel := context.WithTimeout(ctx, c.stepTime)
	defer cancel()
	dir, err := c.directory(ctx)
	if err != nil {
		return Meta{}, err
	}
	return dir.meta, nil
}

func (c *Client) directory(ctx context.Context) (*loaded, error) {
	select {
	case c.lock <- struct{}{}:
		defer func() { <-c.lock }()
	case <-ctx.Done():
		return nil, failure(opDirectory, fmt.Errorf("wait for directory: %w", ctx.Err()))
	}
	if c.loaded != nil && c.now().Sub(c.loaded.fetched) < directoryLife {
		return c.loaded, nil
	}
	fresh, err := c.fetchDirectory(ctx)
	if err != nil {
		if c.loaded != nil && AsProblem(err).Class == Retry {
			return c.loaded, nil // a directory hardly ever changes; the step itself will say if the CA is away
		}
		return nil, err
	}
	c.loaded = fresh
	return fresh, nil
}

func (c *Client) fetchDirectory(ctx context.Context) (*loaded, error) {
	target, err := checkURL(c.url)
	if err != nil {
		return nil, failure(opDirectory, err)
	}
	_, body, err := c.get(ctx, opDirectory, target)
	if err != nil {
		return nil, err
	}
	var dir acme.Directory
	if err := json.Unmarshal(body, &dir); err != nil {
		return nil, unreadable(opDirectory, err)
	}
	if dir.NewNonce == "" || dir.NewAccount == "" || dir.NewOrder == "" {
		return nil, bad(opDirectory, Retry, ErrBadAnswer, "the answer is not an ACME directory (RFC 8555 section 7.1.1)")
	}
	if err := checkURLs(opDirectory, dir.NewNonce, dir.NewAccount, dir.NewOrder, dir.RevokeCert, dir.KeyChange, dir.RenewalInfo); err != nil {
		return nil, err
	}
	return c.use(ctx, dir)
}

const (
	maxProfiles    = 100
	maxProfileName = 100
	maxProfileText = 300
)

// use prepares the protocol library for a checked directory. What it keeps of
// one is bounded, whatever the CA says.
func (c *Client) use(ctx context.Context, dir acme.Directory) (*loaded, error) {
	out := &loaded{fetched: c.now(), meta: Meta{RenewalInfo: dir.RenewalInfo != ""}}
	if dir.RenewalInfo != "" {
		out.renewalInfo, _ = url.Parse(dir.RenewalInfo) // checked before
	}
	if dir.Meta != nil {
		out.meta.TermsOfService = clean(dir.Meta.TermsOfService, maxURL)
		out.meta.ExternalAccountRequired = dir.Meta.ExternalAccountRequired
		out.meta.Profiles = profiles(dir.Meta.Profiles)
		dir.Meta = &acme.DirectoryMeta{Profiles: out.meta.Profiles}
	}
	dir.NewAuthz = ""
	content, err := json.Marshal(uncached{Directory: dir})
	if err != nil {
		return nil, unreadable(opDirectory, err)
	}
	out.protocol = &acme.Client{
		Directory:   "https://" + directoryHost,
		HTTPClient:  &http.Client{Transport: &gate{client: c, directory: content, nonceURL: dir.NewNonce}},
		UserAgent:   c.userAgent,
		PollTimeout: -1, // FinalizeOrder then gives the order without polling it
	}
	_, _ = out.protocol.GetDirectory(ctx) // fails, see uncached
	if _, err := out.protocol.GetDirectory(ctx); err != nil {
		return nil, unreadable(opDirectory, err)
	}
	return out, nil
}

// uncached is a directory that the library takes without putting it into its
// cache. That is one map for the process, by URL, from which nothing is ever
// removed: users name directories, and each content would stay. The library
// decodes an answer into the client and caches it when that succeeded. Here one
// member is of the wrong type, so decoding sets all others and reports an error
// (encoding/json, Unmarshal); the client finds them set from then on.
//
// The member is renewalInfo, which the library must not see anyway: it would
// fetch renewal information, with pauses, inside the download of a certificate.
type uncached struct {
	acme.Directory

	RenewalInfo int `json:"renewalInfo"` //nolint:tagliatelle // RFC 9773 spells it so
}

// profiles is what is kept of the profiles of a directory, the first ones by
// name.
func profiles(all map[string]string) map[string]string {
	kept := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(name) <= maxProfileName && len(kept) < maxProfiles {
			kept[name] = clean(all[name], maxProfileText)
		}
	}
	return kept
}
