package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
)

const (
	mePrefix    = "/apiv1/me/"
	usersPrefix = "/apiv1/users/"
	meSegment   = "~" // stands for the caller's id after the rewrite
)

// chain is the fixed outer part of every request.
func (m *Mux) chain(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.fail(w, r, fault.Forbidden("A page of another origin cannot change anything here."))
	}))
	protected := protection.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := m.now()
		s := &state{id: m.ids.next(), w: &writer{ResponseWriter: w, status: http.StatusOK}, request: r, refused: m.refused}
		s.client, s.overTLS = m.proxies.from(r)
		m.watch.look(r.Context(), m, r, s.client)
		r = r.WithContext(context.WithValue(r.Context(), stateKey{}, s))
		if r.Method == http.MethodHead { // RFC 9110 section 9.3.2: GET, whose body net/http then leaves out
			r.Method = http.MethodGet
		}
		header := w.Header()
		header["X-Request-Id"] = []string{s.id}
		header["X-Content-Type-Options"] = nosniff
		header["Cache-Control"] = noStore
		header["Referrer-Policy"] = noReferrer
		header["Content-Security-Policy"] = noContent
		if m.https {
			header["Strict-Transport-Security"] = hsts
		}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
					panic(p)
				}
				s.cause = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				m.fail(s.w, r, s.cause)
			}
			s.w.finish()
			m.logRequest(r, s, m.now().Sub(start).Microseconds())
		}()
		if err := m.rewrite(r, s); err != nil {
			m.fail(s.w, r, err)
			return
		}
		protected.ServeHTTP(s.w, r)
	})
}

// Header values that never change are shared, not allocated per request.
var (
	nosniff    = []string{"nosniff"}
	noStore    = []string{"no-store"}
	noReferrer = []string{"no-referrer"}
	noContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
	hsts       = []string{"max-age=31536000"}
)

// rewrite routes on the decoded path, refuses NUL, and turns /apiv1/me/ into
// the caller's own path.
func (m *Mux) rewrite(r *http.Request, s *state) error {
	r.URL.RawPath = ""
	if strings.IndexByte(r.URL.Path, 0) >= 0 || strings.Contains(r.URL.RawQuery, "%00") {
		return fault.Invalid("path", "must not hold a NUL character")
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, mePrefix); ok {
		s.me = true
		r.URL.Path = usersPrefix + meSegment + "/" + rest
	}
	return nil
}

// guard is the inner part: authenticate, permission, body. A body is read only
// after its credential was accepted, and holds its bytes until the answer is
// written.
func (m *Mux) guard(route *RouteInfo, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := stateFrom(r.Context())
		hasBody := r.Body != nil && r.Body != http.NoBody
		err := m.admit(r, route.Rule, s)
		if s.caller != nil {
			if m.knows != nil {
				m.knows(r.Context())
			}
			r = r.WithContext(s.known(r.Context()))
		}
		switch {
		case hasBody && err == nil && route.Body > 0:
			hold := m.bodies.receipt(r.Context(), s.caller)
			defer hold.release()
			err = m.receive(w, r, route, hold)
			r = r.WithContext(s.known(r.Context()))
		case hasBody:
			unread(w)
		}
		if err == nil && route.Answer > 0 {
			err = m.reserve(r.Context(), route.Answer)
		}
		if err != nil {
			m.fail(w, r, err)
			return
		}
		defer s.w.release()
		next.ServeHTTP(w, r)
	})
}

// admit finds the caller and asks the rule.
func (m *Mux) admit(r *http.Request, rule access.Rule, s *state) error {
	caller, err := m.authenticate(r, rule)
	if err != nil || caller == nil {
		return err
	}
	s.caller = caller
	return m.permit(r, rule, caller, s)
}

// known puts the caller into the context.
func (s *state) known(ctx context.Context) context.Context {
	if s.caller == nil {
		return ctx
	}
	return access.With(ctx, s.caller)
}

// slowBody is how long a body may take before its sender is asked once more
// for the credential: a key that was revoked or a session that ended in the
// meantime changes nothing any more (OWASP ASVS 8.3.2).
const slowBody = time.Second

func (m *Mux) receive(w http.ResponseWriter, r *http.Request, route *RouteInfo, hold *receipt) error {
	begin := time.Now()
	body, err := receive(w, r, route.Body, hold)
	if err != nil {
		return err
	}
	r.Body = &received{Reader: bytes.NewReader(body), all: body, hold: hold}
	if s := stateFrom(r.Context()); s.caller != nil && time.Since(begin) >= slowBody {
		return m.admit(r, route.Rule, s)
	}
	return nil
}

var errNoCredential = fault.Unauthorized("Sign in first: this endpoint needs a credential.")

func (m *Mux) authenticate(r *http.Request, rule access.Rule) (*access.Caller, error) {
	if rule.TakesNone() && !rule.Recognises() {
		return nil, nil
	}
	bearer, hasBearer, err := bearerOf(r)
	if err != nil && !rule.Recognises() {
		return nil, err
	}
	isKey := hasBearer && strings.HasPrefix(bearer, "ak_")
	switch {
	case rule.Recognises():
		caller, err := m.auth.Session(r)
		if fault.Is(err, fault.CodeUnauthorized) {
			return nil, nil
		}
		return caller, err
	case rule.TakesDevice():
		if !hasBearer || isKey {
			return nil, fault.Unauthorized("This endpoint takes a device token: Authorization: Bearer <jwt>.")
		}
		return m.auth.Device(r.Context(), bearer)
	case rule.TakesWorker():
		return m.auth.Worker(r, bearer)
	case isKey: // also where none is taken: the answer is 5022, not 5018
		return m.auth.Key(r.Context(), bearer)
	case !rule.TakesSession():
		return nil, fault.Unauthorized("This endpoint takes an API key: Authorization: Bearer ak_….")
	case hasBearer:
		return nil, fault.Unauthorized("This endpoint takes a session or, where stated, an API key (Bearer ak_…); this bearer token is neither.")
	}
	caller, err := m.auth.Session(r)
	if err == nil && caller == nil {
		err = errNoCredential
	}
	return caller, err
}

// bearerOf reads the token of the Authorization header (RFC 6750 section 2.1);
// the name of the scheme has no case (RFC 9110 section 11.1). Of two headers a
// proxy may have read one and we the other, so they prove nothing.
func bearerOf(r *http.Request) (token string, ok bool, err error) {
	values := r.Header["Authorization"]
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		scheme, token, _ := strings.Cut(values[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", false, nil
		}
		return strings.TrimLeft(token, " "), true, nil
	}
	return "", false, fault.Unauthorized("Send one Authorization header.")
}

// permit compares the path's user with the caller and asks the rule.
func (m *Mux) permit(r *http.Request, rule access.Rule, caller *access.Caller, s *state) error {
	if user := chi.URLParam(r, "user_id"); user != "" && !rule.TakesAdmins() && (!s.me || user != meSegment) && user != strconv.FormatInt(caller.UserID, 10) {
		return fault.Forbidden("The user in the path is not the caller; use /apiv1/me/.")
	}
	object := ""
	if rule.Object() != "" {
		object = chi.URLParam(r, rule.Object())
	}
	return rule.Admit(caller, object, m.now)
}

func (m *Mux) unknownPath(w http.ResponseWriter, r *http.Request) { m.fail(w, r, unknownPath()) }

func unknownPath() error {
	f := fault.NotFound("path")
	f.Key = "UNKNOWN_PATH"
	return f
}

func (m *Mux) wrongMethod(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		if m.router.Match(chi.NewRouteContext(), method, r.URL.Path) {
			allowed = append(allowed, method)
			if method == http.MethodGet {
				allowed = append(allowed, http.MethodHead)
			}
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	m.fail(w, r, &answer{
		status: http.StatusMethodNotAllowed,
		fault:  fault.Invalid("method", "%s is not allowed here; allowed: %s", r.Method, strings.Join(allowed, ", ")),
	})
}

func (m *Mux) logRequest(r *http.Request, s *state, micros int64) {
	level := slog.LevelInfo
	left := errors.Is(r.Context().Err(), context.Canceled) // nobody reads the answer
	if s.w.status >= http.StatusInternalServerError && s.w.status != http.StatusNotImplemented && !left {
		level = slog.LevelError
	}
	if !m.log.Enabled(r.Context(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs, slog.String("request_id", s.id), slog.String("method", s.request.Method), slog.String("path", r.URL.Path),
		slog.Int("status", s.w.status), slog.Int64("us", micros))
	if c := s.caller; c != nil {
		attrs = append(attrs, slog.Int64("user_id", c.UserID))
		if c.DeviceID != 0 {
			attrs = append(attrs, slog.Int64("device_id", c.DeviceID))
		}
	}
	if s.cause != nil && !errors.Is(s.cause, context.Canceled) {
		attrs = append(attrs, slog.String("error", s.cause.Error()))
	}
	m.log.LogAttrs(r.Context(), level, "request", attrs...)
}
