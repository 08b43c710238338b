package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrLoginRequired is wrapped by errors that only a person can end, by logging
// this device in again.
var ErrLoginRequired = errors.New("log in again with certharbor-agent login")

// ErrResync is wrapped by Updates when the server no longer serves the cursor
// (409/40901, or 400 for a cursor it cannot read).
var ErrResync = errors.New("the updates cursor is no longer served")

// Error is an answer with status 400 or higher.
type Error struct {
	Op         string // what was tried
	Status     int    // HTTP status
	Code       int    // error.code, 0 when the body had none
	Key        string // error.key
	What       string // error.what
	RetryAfter time.Duration
	pending    bool
}

// Error names the operation, the status and what the server said.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: the server answered %d", e.Op, e.Status)
	if e.Code != 0 {
		text += fmt.Sprintf(" (code %d)", e.Code)
	}
	if e.What != "" {
		text += ": " + e.What
	} else if e.Key != "" {
		text += ": " + e.Key
	}
	return text
}

// Unavailable is a request that got no usable answer: no connection, a
// connection that broke, or (Answered) a body that is not the API's.
type Unavailable struct {
	Op       string
	Err      error
	Answered bool
}

// Error says that the server cannot be reached, and why.
func (e *Unavailable) Error() string {
	return fmt.Sprintf("%s: no answer from the server: %v", e.Op, e.Err)
}

// Unwrap gives the cause.
func (e *Unavailable) Unwrap() error { return e.Err }

// Transient says whether err passes by itself (no answer, 429, 5xx), and how
// long the server asked to wait, 0 when it did not say.
func Transient(err error) (time.Duration, bool) {
	if answer, ok := errors.AsType[*Error](err); ok {
		return answer.RetryAfter, answer.Status == http.StatusTooManyRequests || answer.Status >= 500
	}
	var none *Unavailable
	return 0, errors.As(err, &none)
}

// Pending says whether err asks to come back for a private key: 409 with the
// literal WRAP_PENDING in the body, or 503 (wire.md 7).
func Pending(err error) bool {
	var answer *Error
	return errors.As(err, &answer) && (answer.pending || answer.Status == http.StatusServiceUnavailable)
}

// HasStatus says whether err is an answer with this HTTP status.
func HasStatus(err error, status int) bool {
	var answer *Error
	return errors.As(err, &answer) && answer.Status == status
}

// HasKey says whether err is an answer with this error.key.
func HasKey(err error, key string) bool {
	var answer *Error
	return errors.As(err, &answer) && answer.Key == key
}

func newError(op string, status int, header http.Header, body []byte) *Error {
	var parsed struct {
		Error struct {
			Code   int    `json:"code"`
			Key    string `json:"key"`
			What   string `json:"what"`
			Params struct {
				RetryAfter int `json:"retry_after"`
			} `json:"params"`
		} `json:"error"`
	}
	// A proxy's error page is no JSON: the status alone has to do.
	_ = json.Unmarshal(body, &parsed) //nolint:errcheck // see above
	wait, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || wait < 0 {
		wait = max(parsed.Error.Params.RetryAfter, 0)
	}
	return &Error{
		Op: op, Status: status, Code: parsed.Error.Code, Key: parsed.Error.Key, What: parsed.Error.What,
		RetryAfter: time.Duration(min(wait, 86400)) * time.Second,
		pending:    status == http.StatusConflict && strings.Contains(string(body), "WRAP_PENDING"),
	}
}
