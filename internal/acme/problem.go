package acme

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/outbound"
)

// Class says what a failed step asks of the caller.
type Class int

// The classes.
const (
	// Retry: the same step may succeed later, not before RetryAfter.
	Retry Class = iota
	// Permanent: the same request will fail again; a person must act.
	Permanent
	// AccountGone: the CA does not know the account; it must be registered anew.
	AccountGone
	// OrderGone: the order cannot be continued; a new order may succeed.
	OrderGone
)

func (c Class) String() string {
	return [...]string{"retry", "permanent", "account gone", "order gone"}[c]
}

// Causes of a Problem that is not a problem document of the CA, matched with
// errors.Is. Failures of the connection wrap the errors of package outbound.
var (
	ErrBadAnswer      = errors.New("not an answer of RFC 8555")
	ErrBadURL         = errors.New("a URL that is not accepted")
	ErrBadToken       = errors.New("a challenge token that is not base64url")
	ErrBadCertificate = errors.New("a certificate that is not the one ordered")
	ErrUnsupported    = errors.New("the CA does not offer this")
)

// Problem is the error of every step.
type Problem struct {
	// Op is the step, such as "new order".
	Op string
	// Type is the CA's problem type (RFC 8555 section 6.7), "" when the CA
	// did not state one.
	Type string
	// Detail is the text for a person, of the CA or of this package.
	Detail string
	// Parts are the subproblems (RFC 8555 section 6.7.1).
	Parts []Part
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// Class says what to do.
	Class Class
	// RetryAfter is how long the CA wants the next try to wait, 0 if unsaid.
	RetryAfter time.Duration
	// Err is the cause, for the log only. It is nil for a problem document.
	Err error
}

// Part is one subproblem.
type Part struct{ Type, Detail, Identifier string }

// Error gives the problem as one line for error_message: at most 1000 bytes,
// without control characters, without key authorizations, and without any
// upstream text other than a problem document's.
func (p *Problem) Error() string {
	var line strings.Builder
	switch {
	case p.Type != "":
		line.WriteString(p.Type)
	case p.Op != "":
		line.WriteString(p.Op)
	}
	if p.Detail != "" {
		line.WriteString(": " + p.Detail)
	}
	if len(p.Parts) > 0 {
		parts := make([]string, len(p.Parts))
		for i, part := range p.Parts {
			parts[i] = part.String()
		}
		line.WriteString(" (" + strings.Join(parts, "; ") + ")")
	}
	return clean(line.String(), maxLine)
}

// String gives "identifier: detail", or the one of them there is.
func (p Part) String() string {
	if p.Identifier == "" || p.Detail == "" {
		return p.Identifier + p.Detail
	}
	return p.Identifier + ": " + p.Detail
}

// Unwrap gives the cause.
func (p *Problem) Unwrap() error { return p.Err }

// AsProblem gives the Problem in err's chain. An error that is none becomes
// one of class Retry whose text says nothing of err. It is nil for nil.
func AsProblem(err error) *Problem {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	return &Problem{Detail: "internal failure", Class: Retry, Err: err}
}

// document is a problem document (RFC 9457, RFC 8555 section 6.7). Members of
// other types than specified are not worth failing for, so only texts are read.
type document struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Detail      string `json:"detail"`
	Subproblems []struct {
		Type       string `json:"type"`
		Detail     string `json:"detail"`
		Identifier struct {
			Value string `json:"value"`
		} `json:"identifier"`
	} `json:"subproblems"`
}

const (
	maxLine  = 1000
	maxParts = 10 // more do not fit the line anyway
)

// problem makes a Problem of a document.
func (d document) problem(op string) *Problem {
	p := &Problem{Op: op, Type: clean(d.Type, 200), Detail: clean(d.Detail, maxLine)}
	if p.Detail == "" {
		p.Detail = clean(d.Title, maxLine)
	}
	for _, s := range d.Subproblems[:min(len(d.Subproblems), maxParts)] {
		p.Parts = append(p.Parts, Part{clean(s.Type, 200), clean(s.Detail, maxLine), clean(s.Identifier.Value, 253)})
	}
	return p
}

// fromAnswer makes a Problem of an HTTP answer that is not a success. Only a
// problem document contributes text; other bodies are not shown to anyone.
func fromAnswer(op string, status int, header http.Header, body []byte, now time.Time) *Problem {
	p := &Problem{Op: op, Detail: "the CA answered HTTP " + http.StatusText(status), Err: ErrBadAnswer}
	if http.StatusText(status) == "" {
		p.Detail = "the CA answered an unknown HTTP status"
	}
	var doc document
	if mediaType(header) == "application/problem+json" && json.Unmarshal(body, &doc) == nil {
		if stated := doc.problem(op); stated.Type != "" || stated.Detail != "" {
			p = stated
		}
	}
	p.Status = status
	p.RetryAfter = outbound.RetryAfter(header, now, maxRetryAfter)
	p.Class = classify(op, status, p.Type)
	return p
}

// failure makes a Problem of a call that got no answer.
func failure(op string, err error) *Problem {
	class := Retry
	if errors.Is(err, outbound.ErrRefusedTarget) || errors.Is(err, ErrBadURL) || errors.Is(err, outbound.ErrTooLarge) {
		class = Permanent
	}
	detail := outbound.Public(err)
	if errors.Is(err, ErrBadURL) {
		detail = "the URL is not accepted"
	}
	return &Problem{Op: op, Detail: detail, Class: class, Err: err}
}

// bad makes a Problem of an answer that is not what it should be.
func bad(op string, class Class, cause error, detail string) *Problem {
	return &Problem{Op: op, Detail: detail, Class: class, Err: cause}
}
