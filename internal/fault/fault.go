package fault

import (
	"errors"
	"fmt"
	"time"
)

// Code is the number in error.code of an answer.
type Code int

// The codes of api.md "Errors", wire.md section 1 and decisions.md section 1.
const (
	CodeInvalid         Code = 5000  // a field, parameter or method is wrong
	CodeNotFound        Code = 5003  // absent, or not the caller's
	CodeNotImplemented  Code = 5010  // specified as not implemented
	CodeRateLimited     Code = 5013  // too many; RetryAfter says how long
	CodeUnavailable     Code = 5014  // the server cannot serve now (disk full, stopping)
	CodeInternal        Code = 5017  // our fault; the cause is only logged
	CodeUnauthorized    Code = 5018  // credential missing, invalid or expired
	CodeForbidden       Code = 5022  // credential valid, right missing
	CodeConflict        Code = 5030  // the state of the object does not allow it
	CodeWrapPending     Code = 5031  // no key is wrapped for the device yet
	CodeExportForbidden Code = 5032  // the policy keeps the key from leaving
	CodeNotIssued       Code = 5033  // the certificate has not been issued
	CodeStepUpRequired  Code = 5034  // a fresh or stronger sign-in is needed
	CodeRefreshRotated  Code = 10003 // the refresh token was already rotated
	CodeCursorExpired   Code = 40901 // the updates cursor is no longer served
)

// Codes lists every code, for the tests that require each to be handled.
func Codes() []Code {
	return []Code{
		CodeInvalid, CodeNotFound, CodeNotImplemented, CodeRateLimited, CodeUnavailable,
		CodeInternal, CodeUnauthorized, CodeForbidden, CodeConflict, CodeWrapPending,
		CodeExportForbidden, CodeNotIssued, CodeStepUpRequired, CodeRefreshRotated, CodeCursorExpired,
	}
}

// Error is an error whose Code, Key, What and Params reach the caller.
type Error struct {
	Code       Code
	Key        string         // stable string for programs, may be empty
	What       string         // a sentence a person can act on
	Params     map[string]any // further facts, may be nil
	RetryAfter time.Duration  // for CodeRateLimited and CodeUnavailable
	Err        error          // the cause, only logged
}

// Error returns the public sentence and, for the log, the cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%d %s: %v", e.Code, e.What, e.Err)
	}
	return fmt.Sprintf("%d %s", e.Code, e.What)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// As returns the fault in err's chain, or nil when there is none.
func As(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	return nil
}

// Is reports whether err's chain holds a fault with this code.
func Is(err error, code Code) bool {
	f := As(err)
	return f != nil && f.Code == code
}
