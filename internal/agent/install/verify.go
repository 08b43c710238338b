package install

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

const (
	verifyEvery   = 200 * time.Millisecond
	verifyDefault = 10 * time.Second
)

// verify waits until a TLS handshake shows one of the serials, at most for
// limit: a service may need a moment after its reload.
func (e *Engine) verify(ctx context.Context, check TLSCheck, serials []string, limit time.Duration) error {
	ctx = context.WithoutCancel(ctx)
	deadline := e.Clock.Now().Add(limit)
	for {
		err := handshake(ctx, check, serials)
		if err == nil {
			return nil
		}
		if !e.Clock.Now().Before(deadline) {
			return fmt.Errorf("verify %s: %w", check.Address, err)
		}
		if sleepErr := e.Clock.Sleep(ctx, verifyEvery); sleepErr != nil {
			return fmt.Errorf("verify %s: %w", check.Address, err)
		}
	}
}

func handshake(ctx context.Context, check TLSCheck, serials []string) error {
	host, _, err := net.SplitHostPort(check.Address)
	if err != nil {
		return fmt.Errorf("address must be host:port: %w", err)
	}
	name := check.ServerName
	if name == "" {
		name = host
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// The question is which certificate is served, not whether this machine
	// trusts its issuer: the serial is compared below.
	dialer := &tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}} //nolint:gosec // see above
	conn, err := dialer.DialContext(ctx, "tcp", check.Address)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // only looked at
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return errors.New("connection is not TLS")
	}
	certs := secured.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return errors.New("the service shows no certificate")
	}
	if shown := certs[0].SerialNumber.Text(16); !slices.Contains(serials, shown) {
		return fmt.Errorf("the service shows serial %s, expected %s", shown, strings.Join(serials, " or "))
	}
	return nil
}
