package wiretest

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// UserID owns everything on the server; APIKey may register devices.
const (
	UserID = int64(7)
	APIKey = "ak_wiretest"
)

// Server is the fake server. Its exported fields may be set before use, its
// methods at any time.
type Server struct {
	URL           string
	TokenLifetime time.Duration // of access tokens, default 1 h
	AutoApprove   bool          // approves device logins at the first poll
	NeverHold     bool          // answers polls at once, whatever `wait` says

	http     *httptest.Server
	mu       sync.Mutex
	changed  *sync.Cond // broadcast on every new stream entry
	secret   []byte
	flows    map[string]*flow
	codes    map[string]bool // registration code → used
	devices  map[string]*device
	ca       *authority
	certs    map[int64]*cert
	config   config
	notified []json.RawMessage
	requests []string
	faults   []*fault
	closing  bool
}

type device struct {
	id       int64
	publicID string
	pk       []byte
	refresh  string
	spent    map[string]rotation // by refresh token
	inactive bool
	gen      int64
	stream
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server { return start(t, false) }

// NewTLS starts a server with a self-made certificate; CAFile gives its PEM.
func NewTLS(t testing.TB) *Server { return start(t, true) }

func start(t testing.TB, tls bool) *Server {
	t.Helper()
	s := &Server{
		TokenLifetime: time.Hour, secret: []byte(random(32)),
		flows: map[string]*flow{}, codes: map[string]bool{}, devices: map[string]*device{}, certs: map[int64]*cert{},
		ca: newAuthority(),
	}
	s.changed = sync.NewCond(&s.mu)
	if tls {
		s.http = httptest.NewTLSServer(s.handler())
	} else {
		s.http = httptest.NewServer(s.handler())
	}
	s.URL = s.http.URL
	t.Cleanup(s.close)
	return s
}

func (s *Server) close() {
	s.mu.Lock()
	s.closing = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.http.CloseClientConnections()
	s.http.Close()
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /auth/device", s.authDevice)
	mux.HandleFunc("POST /auth/refresh", s.authRefresh)
	mux.HandleFunc("POST /apiv1/device/registration", s.registerByCode)
	mux.HandleFunc("POST /apiv1/me/devices", s.registerByKey)
	mux.HandleFunc("GET /apiv1/devices/self/updates", s.self(s.updates))
	mux.HandleFunc("GET /apiv1/devices/self/install-config", s.self(s.installConfig))
	mux.HandleFunc("GET /apiv1/devices/self/certificates/{id}", s.self(s.certificate))
	mux.HandleFunc("GET /apiv1/devices/self/certificates/{id}/deploy-materials", s.self(s.deployMaterials))
	mux.HandleFunc("GET /apiv1/devices/self/cas/{id}/bundle", s.self(s.caBundle))
	mux.HandleFunc("POST /apiv1/devices/self/notify", s.self(s.notify))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		s.changed.Broadcast()
		handle := s.faultFor(r)
		s.mu.Unlock()
		if handle != nil {
			handle(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// fault replaces the answer of the next n requests whose "METHOD /path" holds
// match.
type fault struct {
	match  string
	n      int
	answer http.HandlerFunc
}

// Fail makes the next n requests whose "METHOD /path" contains match get
// answer instead of the server's own.
func (s *Server) Fail(match string, n int, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault{match, n, answer})
}

// Heal ends all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

func (s *Server) faultFor(r *http.Request) http.HandlerFunc {
	for _, f := range s.faults {
		if f.n > 0 && strings.Contains(r.Method+" "+r.URL.Path, f.match) {
			f.n--
			return f.answer
		}
	}
	return nil
}

// Status answers with an error of wire.md 1.5. retryAfter 0 sends no header.
func Status(status, code, retryAfter int, key string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		}
		fail(w, status, code, key, nil)
	}
}

// Hangup closes the connection without an answer.
func Hangup(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// LoseAnswer lets the server do its work and closes the connection instead of
// answering.
func (s *Server) LoseAnswer(match string) { s.LoseAnswerAfter(match, func() {}) }

// LoseAnswerAfter is LoseAnswer with something to do before the connection is
// closed, such as to kill the device.
func (s *Server) LoseAnswerAfter(match string, do func()) {
	mux := s.http.Config.Handler
	s.Fail(match, 1, func(_ http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(httptest.NewRecorder(), r)
		do()
		panic(http.ErrAbortHandler)
	})
}

// Requests gives "METHOD /path" of every request so far.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// Count gives how many requests so far contain match.
func (s *Server) Count(match string) int {
	n := 0
	for _, r := range s.Requests() {
		if strings.Contains(r, match) {
			n++
		}
	}
	return n
}

// CAFile gives the PEM of the server's TLS certificate.
func (s *Server) CAFile() []byte { return encodePEM("CERTIFICATE", s.http.Certificate().Raw) }

func data(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(map[string]any{"data": v})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:errcheck // a client that went away
}

func fail(w http.ResponseWriter, status, code int, key string, params any) {
	e := map[string]any{"code": code, "what": "the test server says no"}
	if key != "" {
		e["key"] = key
	}
	if params != nil {
		e["params"] = params
	}
	body, err := json.Marshal(map[string]any{"error": e})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:errcheck // a client that went away
}

// body reads a JSON object; anything else is 400/5000.
func body(w http.ResponseWriter, r *http.Request, v any) bool {
	text, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength < 0 || json.Unmarshal(text, v) != nil {
		fail(w, http.StatusBadRequest, 5000, "", nil)
		return false
	}
	return true
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) //nolint:errcheck // never fails
	return hex.EncodeToString(b)
}
