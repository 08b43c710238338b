package acme

import (
	"net/http"
	"strings"
	"time"
)

// urn is the namespace of ACME problem types (RFC 8555 section 6.7).
const urn = "urn:ietf:params:acme:error:"

// maxRetryAfter is the longest wish to wait that is believed.
const maxRetryAfter = 7 * 24 * time.Hour

// The steps as they are named in errors.
const (
	opDirectory     = "directory"
	opNewNonce      = "new nonce"
	opRegister      = "register account"
	opDeactivate    = "deactivate account"
	opNewOrder      = "new order"
	opOrder         = "order"
	opAuthorization = "authorization"
	opChallenge     = "challenge"
	opFinalize      = "finalize"
	opCertificate   = "certificate"
	opRevoke        = "revoke"
	opRenewalInfo   = "renewal info"
	opValidate      = "validation"
)

// classify says what an answer asks of the caller. The problem type counts
// more than the status, since some CAs send every problem with one status.
func classify(op string, status int, problemType string) Class {
	kind, _ := strings.CutPrefix(problemType, urn)
	switch kind {
	case "badNonce", "rateLimited", "serverInternal":
		return Retry
	case "accountDoesNotExist":
		return AccountGone
	}
	switch status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly:
		return Retry
	case http.StatusNotFound, http.StatusGone:
		if belongsToOrder(op) {
			return OrderGone
		}
	}
	if status >= 500 {
		return Retry
	}
	return Permanent
}

func belongsToOrder(op string) bool {
	switch op {
	case opOrder, opAuthorization, opChallenge, opFinalize, opCertificate:
		return true
	}
	return false
}
