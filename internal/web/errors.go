package web

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// statusOf maps every code to its HTTP status (decisions.md section 1).
func statusOf(code fault.Code) int {
	switch code {
	case fault.CodeInvalid:
		return http.StatusBadRequest
	case fault.CodeNotFound:
		return http.StatusNotFound
	case fault.CodeNotImplemented:
		return http.StatusNotImplemented
	case fault.CodeRateLimited:
		return http.StatusTooManyRequests
	case fault.CodeUnavailable:
		return http.StatusServiceUnavailable
	case fault.CodeInternal:
		return http.StatusInternalServerError
	case fault.CodeUnauthorized, fault.CodeRefreshRotated:
		return http.StatusUnauthorized
	case fault.CodeForbidden, fault.CodeExportForbidden, fault.CodeStepUpRequired:
		return http.StatusForbidden
	case fault.CodeConflict, fault.CodeWrapPending, fault.CodeNotIssued, fault.CodeCursorExpired:
		return http.StatusConflict
	}
	return 0
}

// answer is a failure on its way to the caller.
type answer struct {
	status int
	fault  *fault.Error
}

// Error implements error.
func (a *answer) Error() string { return a.fault.Error() }

// GetStatus implements huma.StatusError.
func (a *answer) GetStatus() int { return a.status }

// GetHeaders implements huma.HeadersError.
func (a *answer) GetHeaders() http.Header {
	h := http.Header{}
	if a.fault.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(seconds(a.fault.RetryAfter), 10))
	}
	if a.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="certharbor"`)
	}
	return h
}

// errorEnvelope is the body of every failure (api.md "Errors").
type errorEnvelope struct {
	Error problem `json:"error"`
}

type problem struct {
	Code   fault.Code     `json:"code" doc:"5000 invalid, 5003 not found, 5018 unauthorized, 5022 forbidden, and others."`
	What   string         `json:"what" doc:"What a person can do about it."`
	Key    string         `json:"key,omitempty" doc:"A stable name for programs, where there is one."`
	Params map[string]any `json:"params,omitempty" doc:"Further facts, for example retry_after in seconds."`
}

// MarshalJSON writes the error envelope.
func (a *answer) MarshalJSON() ([]byte, error) {
	p := problem{Code: a.fault.Code, What: a.fault.What, Key: a.fault.Key, Params: a.fault.Params}
	if a.fault.RetryAfter > 0 {
		p.Params = map[string]any{"retry_after": seconds(a.fault.RetryAfter)}
	}
	return json.Marshal(errorEnvelope{p})
}

func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// toAnswer turns any error into an answer and keeps the cause for the log.
func toAnswer(ctx context.Context, err error) *answer {
	if a, ok := errors.AsType[*answer](err); ok {
		return a
	}
	f := fault.As(err)
	if f == nil {
		f = classify(err)
	}
	if s := stateFrom(ctx); s != nil && (f.Err != nil || f.Code == fault.CodeInternal) {
		s.cause = err
	}
	a := &answer{status: statusOf(f.Code), fault: f}
	tell(ctx, a)
	return a
}

// tell reports that a caller who is known was refused, once for a request.
func tell(ctx context.Context, a *answer) {
	s := stateFrom(ctx)
	if a.status != http.StatusForbidden || s == nil || s.refused == nil || access.From(ctx) == nil {
		return
	}
	refused := s.refused
	s.refused = nil
	refused(ctx, Refusal{
		Route: s.request.Method + " " + chi.RouteContext(ctx).RoutePattern(), Path: s.request.URL.Path, Code: a.fault.Code, What: a.fault.What,
	})
}

// Describe says how err is answered, for the pages of a Raw route that show it to
// a person: the status, further headers and the public sentence. The cause goes
// to the log as always.
func Describe(ctx context.Context, err error) (status int, header http.Header, what string) {
	a := toAnswer(ctx, err)
	return a.status, a.GetHeaders(), a.fault.What
}

// classify names what is nobody's fault in the request.
func classify(err error) *fault.Error {
	switch {
	case sqldb.Is(err, sqldb.ErrFull):
		return fault.Unavailable(time.Minute, "The server's disk is full; nothing was changed. Free space on it and try again.", err)
	case sqldb.Is(err, sqldb.ErrBroken):
		return fault.Unavailable(time.Minute, "The server's disk failed; nothing further is accepted until it is restarted.", err)
	case sqldb.Is(err, sqldb.ErrUncertain):
		return fault.Unavailable(time.Second, "The database did not confirm in time; look before you try again.", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Unavailable(time.Second, "The request was not finished in time; try again.", err)
	}
	return &fault.Error{Code: fault.CodeInternal, What: "Something went wrong on the server; the log has the cause under this request id.", Err: err}
}

// fail writes the answer for err unless something was written before.
func (m *Mux) fail(w http.ResponseWriter, r *http.Request, err error) {
	a := toAnswer(r.Context(), err)
	if s := stateFrom(r.Context()); s != nil && s.w.wrote {
		s.cause = err
		return
	}
	maps.Copy(w.Header(), a.GetHeaders())
	body, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Del("Content-Disposition")
	w.WriteHeader(a.status)
	_, _ = w.Write(append(body, '\n'))
}

// validation is huma's error hook: it sees messages and places of what did not
// validate, never the rejected value (which may be a password).
func validation(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
	if status >= http.StatusInternalServerError {
		return toAnswer(ctx.Context(), errors.Join(append(errs, errors.New(message))...))
	}
	var sentences []string
	for _, err := range errs {
		detailer, ok := err.(huma.ErrorDetailer)
		if !ok {
			continue
		}
		detail := detailer.ErrorDetail()
		if parameter, found := strings.CutPrefix(detail.Location, "path."); found && strings.HasSuffix(parameter, "_id") {
			return toAnswer(ctx.Context(), fault.NotFound(access.Noun(parameter)))
		}
		if len(sentences) < 3 {
			sentences = append(sentences, sentence(detail))
		}
	}
	if len(sentences) == 0 {
		sentences = append(sentences, "body: "+message)
	}
	return toAnswer(ctx.Context(), fault.Invalid("", "%s", strings.Join(sentences, "; ")))
}

func sentence(d *huma.ErrorDetail) string {
	if strings.HasPrefix(d.Message, huma.ErrUnknownContentType.Error()) {
		return "Content-Type: must be application/json"
	}
	if misfit, ok := strings.CutPrefix(d.Message, "body."); ok {
		return misfit
	}
	place := strings.TrimPrefix(strings.TrimPrefix(d.Location, "body."), "query.")
	if place == "" {
		return d.Message
	}
	return place + ": " + d.Message
}
