package fault

import (
	"fmt"
	"time"
)

// Invalid says that a field of the request is wrong and what is accepted:
// Invalid("limit", "must be 1 to 1000").
func Invalid(field, format string, args ...any) *Error {
	what := fmt.Sprintf(format, args...)
	if field != "" {
		what = field + ": " + what
	}
	return &Error{Code: CodeInvalid, What: what}
}

// NotFound says that the caller has no such object. The noun is the kind of
// object alone, never an id: the answer for a foreign object and for one that
// does not exist must be equal byte by byte (threats.md scenario 1).
func NotFound(noun string) *Error {
	return &Error{Code: CodeNotFound, What: "No such " + noun + "."}
}

// Unauthorized says that the credential is missing, invalid or expired.
func Unauthorized(what string) *Error {
	return &Error{Code: CodeUnauthorized, What: what}
}

// Forbidden says that a valid credential lacks the right.
func Forbidden(what string) *Error {
	return &Error{Code: CodeForbidden, What: what}
}

// Conflict says that the state of the object does not allow the request.
func Conflict(format string, args ...any) *Error {
	return &Error{Code: CodeConflict, Key: "CONFLICT", What: fmt.Sprintf(format, args...)}
}

// WrapPending says that the certificate's key is not wrapped for the device yet.
func WrapPending() *Error {
	return &Error{
		Code: CodeWrapPending, Key: "WRAP_PENDING",
		What: "WRAP_PENDING: the key of this certificate is not sealed to this device yet; re-issue it or try again later.",
	}
}

// ExportForbidden says that the custody policy keeps the key from leaving.
func ExportForbidden(what string) *Error {
	return &Error{Code: CodeExportForbidden, Key: "EXPORT_FORBIDDEN", What: what}
}

// NotIssued says that the certificate has not been issued yet.
func NotIssued() *Error {
	return &Error{Code: CodeNotIssued, Key: "NOT_ISSUED", What: "The certificate has not been issued yet; start an issuance first."}
}

// RateLimited says that the caller must wait for after (rounded up to seconds).
func RateLimited(after time.Duration, format string, args ...any) *Error {
	return &Error{Code: CodeRateLimited, Key: "RATE_LIMITED", What: fmt.Sprintf(format, args...), RetryAfter: after}
}

// Unavailable says that the server cannot serve this now; cause is logged.
func Unavailable(after time.Duration, what string, cause error) *Error {
	return &Error{Code: CodeUnavailable, Key: "UNAVAILABLE", What: what, RetryAfter: after, Err: cause}
}

// Because attaches the cause, for the log, and returns the same fault.
func (e *Error) Because(cause error) *Error {
	e.Err = cause
	return e
}
