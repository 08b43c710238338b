package providertest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
)

// Person is somebody with an account at the provider.
type Person struct {
	ID       string // decimal at GitHub
	Name     string
	Email    string
	Verified bool           // the address
	Claims   map[string]any // further ones, of an OpenID Connect provider
}

// Server is the part that all providers have: who is signed in there, and the
// codes and tokens that were given out.
type Server struct {
	*httptest.Server
	ClientID, ClientSecret string

	mu       sync.Mutex
	who      Person
	codes    map[string]*grant
	tokens   map[string]Person
	faults   map[string]http.HandlerFunc
	requests map[string]int
	denies   bool
}

// grant is a code that was given out.
type grant struct {
	who                        Person
	redirect, challenge, nonce string
	used, expired              bool
}

func start(t testing.TB, routes map[string]http.HandlerFunc, clientID, clientSecret string) *Server {
	s := &Server{
		ClientID: clientID, ClientSecret: clientSecret, codes: map[string]*grant{}, tokens: map[string]Person{},
		faults: map[string]http.HandlerFunc{}, requests: map[string]int{},
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests[r.URL.Path]++
		handler := s.faults[r.URL.Path]
		s.mu.Unlock()
		if handler == nil {
			handler = routes[r.URL.Path]
		}
		if handler == nil {
			http.NotFound(w, r)
			return
		}
		handler(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections() // those that hang
		s.Close()
	})
	return s
}

// SignedIn says who is signed in at the provider in the browser.
func (s *Server) SignedIn(p Person) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.who = p
}

// Deny makes the person press "cancel", or no longer.
func (s *Server) Deny(denies bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denies = denies
}

// Fault answers the path otherwise; nil: as it should.
func (s *Server) Fault(path string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[path] = h
}

// ExpireCodes makes the codes that were given out too old.
func (s *Server) ExpireCodes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.codes {
		g.expired = true
	}
}

// Requests counts those to the path.
func (s *Server) Requests(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[path]
}

func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// grantCode sends the browser back with a code, or without.
func (s *Server) grantCode(w http.ResponseWriter, r *http.Request, denied url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || !back.IsAbs() {
		http.Error(w, "redirect_uri", http.StatusBadRequest)
		return
	}
	values := back.Query()
	values.Set("state", q.Get("state"))
	if s.denies {
		maps.Copy(values, denied)
	} else {
		code := random()
		s.codes[code] = &grant{who: s.who, redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"), nonce: q.Get("nonce")}
		values.Set("code", code)
	}
	back.RawQuery = values.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound) //nolint:gosec // as the real ones do, to what is registered there
}

// What can be wrong with a code.
const (
	codeGood = iota
	codeUnknown
	codeUsed
	codeExpired
	codeElsewhere  // another redirect_uri than it was given out for
	codeUnverified // PKCE
)

// redeem uses up a code.
func (s *Server) redeem(code, redirect, verifier string, pkce bool) (*grant, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.codes[code]
	if g == nil {
		return nil, codeUnknown
	}
	sum := sha256.Sum256([]byte(verifier))
	switch {
	case g.used:
		return nil, codeUsed
	case g.expired:
		return nil, codeExpired
	case g.redirect != redirect && pkce:
		return nil, codeElsewhere
	case pkce && (len(verifier) < 43 || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:])):
		return nil, codeUnverified
	}
	g.used = true
	return g, codeGood
}

// token gives one out.
func (s *Server) token(p Person) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := "token-" + random()
	s.tokens[token] = p
	return token
}

func (s *Server) holder(token string) (Person, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.tokens[token]
	return p, ok
}

func writeJSON(w http.ResponseWriter, contentType string, status int, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
