package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

const webhookSecret = "canary-webhook-secret-51d0"

// caller makes requests with one credential. It outlives the server that it
// talks to: at puts it on another.
type caller struct {
	server *server
	header http.Header
}

// at is the same caller at another server.
func (c caller) at(s *server) caller { return caller{s, c.header} }

// bearer is a caller with a device token.
func (s *server) bearer(token string) caller {
	return caller{s, http.Header{"Authorization": {"Bearer " + token}}}
}

// answer is one answer of a server.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// data decodes the data member into v.
func (a answer) data(v any) error {
	var envelope struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(a.Body, &envelope); err != nil {
		return fmt.Errorf("%w in %s", err, a.Body)
	}
	if err := json.Unmarshal(envelope.Data, v); err != nil {
		return fmt.Errorf("%w in %s", err, a.Body)
	}
	return nil
}

// send makes a request. Its error says that no whole answer came.
func (c caller) send(ctx context.Context, method, path string, body any) (answer, error) {
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		reader = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.server.URL+path, reader)
	if err != nil {
		return answer{}, err
	}
	maps.Copy(r.Header, c.header)
	response, err := c.server.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, received}, err
}

// refused is an answer with another status than the one that was wanted.
type refused struct {
	answer

	request string
	want    int
}

// Error implements error.
func (r *refused) Error() string {
	return fmt.Sprintf("%s: %d %s, want %d", r.request, r.Status, r.Body, r.want)
}

// call makes a request, which has to be answered with the status want (0: any
// success), and decodes the data of the answer into out unless that is nil.
func (c caller) call(ctx context.Context, method, path string, body any, want int, out any) error {
	a, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	if a.Status != want && (want != 0 || a.Status/100 != 2) {
		return &refused{a, method + " " + path, want}
	}
	if out == nil {
		return nil
	}
	return a.data(out)
}

// must is call for requests that cannot fail.
func (c caller) must(method, path string, body any, want int, out any) {
	c.server.t.Helper()
	if err := c.call(c.server.t.Context(), method, path, body, want, out); err != nil {
		c.server.t.Fatalf("%v\n%s", err, c.server.log)
	}
}

// newUser makes a user with the operator command and returns the id. flags
// name the database: --data or --db.
func newUser(t *testing.T, email string, flags ...string) int64 {
	t.Helper()
	command := exec.CommandContext(t.Context(), "certharbor", append([]string{"user", "create", "--email", email, "--password-stdin"}, flags...)...)
	command.Stdin = strings.NewReader(password + "\n")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("user create: %v\n%s", err, &stderr)
	}
	id, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// login signs in.
func (s *server) login(email string) caller {
	s.t.Helper()
	anonymous := caller{server: s}
	a, err := anonymous.send(s.t.Context(), "POST", "/auth/general", map[string]any{"action": "login", "email": email, "password": password})
	if err != nil || a.Status != http.StatusOK {
		s.t.Fatalf("login: %v, %d %s\n%s", err, a.Status, a.Body, s.log)
	}
	cookie, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
	return caller{s, http.Header{"Cookie": {cookie}}}
}
