package web

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
)

// Authenticator turns the credentials of a request into callers. Each method
// returns a fault (5018) when the credential is missing or wrong.
type Authenticator struct {
	// Session reads the session cookie; a nil caller without error means that
	// the request carries none.
	Session func(r *http.Request) (*access.Caller, error)
	// Key takes the bearer token that starts with "ak_".
	Key func(ctx context.Context, token string) (*access.Caller, error)
	// Device takes the bearer token of a device.
	Device func(ctx context.Context, token string) (*access.Caller, error)
	// Worker takes the bearer token of a worker, which may be empty.
	Worker func(r *http.Request, token string) (*access.Caller, error)
}

// Options are what a Mux needs. Log and Auth are required.
type Options struct {
	Log     *slog.Logger
	Auth    Authenticator
	Version string           // for the OpenAPI document
	HTTPS   bool             // the public address is https: adds HSTS
	Now     func() time.Time // for the request log; nil: time.Now
	Proxies Proxies          // whose word about the client counts
	// Refused is called for every refusal (403) of an authenticated caller,
	// before it is answered; nil: nobody asks.
	Refused func(ctx context.Context, r Refusal)
	// Known is called when a credential was accepted; nil: nobody asks.
	Known func(ctx context.Context)
}

// Refusal is what somebody who is known was not allowed to do. The caller is
// in the context.
type Refusal struct {
	Route string // method and pattern, as on the route line
	Path  string // as it was asked for
	Code  fault.Code
	What  string // what the caller reads
}

// Mux routes requests to the handlers that the areas mount.
type Mux struct {
	router  *chi.Mux
	api     huma.API
	log     *slog.Logger
	auth    Authenticator
	now     func() time.Time
	routes  []RouteInfo
	handler http.Handler
	https   bool
	proxies Proxies
	watch   proxyWatch
	ids     requestIDs
	refused func(ctx context.Context, r Refusal)
	knows   func(ctx context.Context)
	bodies  bodies
	decode  *budget // bodies that are being decoded
	answers *budget // answers that are being made
}

// RouteInfo is one line of the golden list of routes.
type RouteInfo struct {
	Method string
	Path   string
	Rule   access.Rule
	Raw    bool
	Body   int64 // the largest body in bytes; 0: none is read
	Answer int64 // bytes that are reserved before the answer is made; 0: none
	List   bool  // the answer is a page, whose size is reserved
}

// Option is what a route line says beyond method, path and rule.
type Option func(*RouteInfo)

// Large takes bodies of up to LargeBody: where certificates, keys or
// configurations are written.
func Large(r *RouteInfo) { r.Body = LargeBody }

// New returns a Mux without routes.
func New(o Options) *Mux {
	m := &Mux{
		router: chi.NewRouter(), log: o.Log, auth: o.Auth, now: o.Now, https: o.HTTPS, proxies: o.Proxies, ids: newRequestIDs(), refused: o.Refused,
		knows: o.Known, bodies: newBodies(),
		decode: newBudget(bodiesDecoded, bodiesDecoded/2), answers: newBudget(AnswersInMaking, answersShare),
	}
	if m.now == nil {
		m.now = time.Now
	}
	m.api = newAPI(m, o.Version)
	m.router.NotFound(m.unknownPath)
	m.router.MethodNotAllowed(m.wrongMethod)
	m.handler = m.chain(m.router)
	return m
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Routes lists what has been mounted, in the order of mounting.
func (m *Mux) Routes() []RouteInfo { return m.routes }

// OpenAPI returns the OpenAPI 3.1 document of the mounted routes as JSON.
func (m *Mux) OpenAPI() ([]byte, error) { return m.api.OpenAPI().MarshalJSON() }

// Raw mounts a handler that writes its answer itself: downloads, streams,
// WebSockets. An error that it returns before it wrote anything becomes the
// usual error answer. maxBody limits the request body in bytes.
func Raw(m *Mux, line string, rule access.Rule, maxBody int64, h func(w http.ResponseWriter, r *http.Request) error, options ...Option) {
	method, path := splitLine(line)
	info := RouteInfo{Method: method, Path: path, Rule: rule, Raw: true, Body: maxBody}
	for _, option := range options {
		option(&info)
	}
	m.routes = append(m.routes, info)
	m.router.Method(method, path, m.guard(&info, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			m.fail(w, r, err)
		}
	})))
}

func splitLine(line string) (method, path string) {
	method, path, ok := strings.Cut(line, " ")
	if !ok {
		panic("web: a route line is a method and a path: " + line)
	}
	return method, path
}
