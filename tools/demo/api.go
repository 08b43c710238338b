package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"time"
)

// api calls CertHarbor's HTTP API as a signed-in person does, with the session cookie.
type api struct {
	base   string
	client *http.Client
}

func newAPI(base string) (*api, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, fmt.Errorf("make cookie jar: %w", err)
	}
	return &api{base: base, client: &http.Client{Jar: jar, Timeout: 35 * time.Second}}, nil
}

// call sends in as JSON (nil: no body) and reads the member data of the answer into out (nil: it is
// not looked at). Anything but 200, 201 and 204 is an error with the answer's code and sentence.
func (a *api) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		content, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s %s: read answer: %w", method, path, err)
	}
	switch resp.StatusCode {
	case http.StatusNoContent:
		return nil
	case http.StatusOK, http.StatusCreated:
	default:
		return fmt.Errorf("%s %s: HTTP %d: %s", method, path, resp.StatusCode, bytes.TrimSpace(content))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(content, &struct{ Data any }{out}); err != nil {
		return fmt.Errorf("%s %s: answer %s: %w", method, path, content, err)
	}
	return nil
}
