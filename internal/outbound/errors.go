package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
)

// Errors of a call. They are matched with errors.Is; the error that is
// returned also wraps the cause, which is for the log only.
var (
	// ErrRefusedTarget says that the address, port or scheme is one the
	// server does not call.
	ErrRefusedTarget = errors.New("the target is not one this server may call")
	// ErrTooLarge says that a body was longer than the caller allowed.
	ErrTooLarge = errors.New("the answer is too large")
	// ErrLostAnswer is the time-out of fault mode: the request was performed
	// and its answer withheld.
	ErrLostAnswer error = lostAnswer{}
)

// lostAnswer looks like any other time-out to code that asks.
type lostAnswer struct{}

func (lostAnswer) Error() string   { return "the answer did not arrive in time" }
func (lostAnswer) Timeout() bool   { return true }
func (lostAnswer) Temporary() bool { return true }
func (lostAnswer) Is(target error) bool {
	return target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded
}

// Public gives the sentence about a failed call that may be shown to a user.
// It is one of a fixed set and holds nothing that came from the other side,
// neither text nor address. It is "" for nil.
func Public(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrRefusedTarget):
		return "the address is not one this server may call (loopback, private or otherwise special)"
	case errors.Is(err, ErrTooLarge):
		return "the answer was too large"
	case errors.Is(err, context.Canceled):
		return "the call was cancelled"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the host name does not exist"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &dns):
		return "the host name could not be resolved"
	case isTLS(err):
		return "the TLS handshake failed"
	default:
		return "the connection failed"
	}
}

func isTLS(err error) bool {
	var (
		record    tls.RecordHeaderError
		alert     tls.AlertError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &verify) ||
		errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}
