package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func (d *demo) certFile() string { return filepath.Join(d.folder, "tls", "fullchain.pem") }
func (d *demo) keyFile() string  { return filepath.Join(d.folder, "tls", "private.key") }
func (d *demo) pidFile() string  { return filepath.Join(d.folder, "tlsservice.pid") }

// startTLSService starts the service that the agent will supply; without files it refuses handshakes.
func (d *demo) startTLSService(ctx context.Context) (string, error) {
	if err := os.Mkdir(filepath.Dir(d.certFile()), 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	service, err := d.children.start("tlsservice", exec.Command(filepath.Join(d.bin, "demo", "tlsservice"),
		"-cert", d.certFile(), "-key", d.keyFile(), "-pid-file", d.pidFile()))
	if err != nil {
		return "", err
	}
	if d.tlsAddress, err = service.line(ctx, service.output, "listening "); err != nil {
		return "", err
	}
	if _, err := d.shownSerial(ctx); err == nil {
		return "", errors.New("a handshake succeeded before anything was installed")
	}
	return "https://" + d.tlsAddress, nil
}

// shownSerial shakes hands with the TLS service as a client that trusts the ACME server's root, for
// our domain, and returns the serial number of the leaf it shows.
func (d *demo) shownSerial(ctx context.Context) (string, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(d.acme.IssuerRootPEM)) {
		return "", errors.New("the ACME server's root is not PEM")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{ServerName: domain, RootCAs: roots, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", d.tlsAddress)
	if err != nil {
		return "", fmt.Errorf("handshake: %w", err)
	}
	defer func() { _ = conn.Close() }()
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return "", fmt.Errorf("handshake gave a %T", conn)
	}
	return serialOf(secured.ConnectionState().PeerCertificates[0]), nil
}

// awaitNewSerial waits until the TLS service shows the serial that the record has now.
func (d *demo) awaitNewSerial(ctx context.Context) (string, error) {
	return eventually(ctx, func() (string, error) {
		current, err := d.currentSerial(ctx)
		if err != nil {
			return "", permanent{err}
		}
		shown, err := d.shownSerial(ctx)
		if err != nil {
			return "", err
		}
		if shown == d.firstSerial || shown != current {
			return "", fmt.Errorf("the TLS service shows %s, the record says %s, the first was %s", shown, current, d.firstSerial)
		}
		return "serial " + shown, nil
	})
}

// firstCertificate returns the first certificate of a PEM text.
func firstCertificate(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	return x509.ParseCertificate(block.Bytes)
}

func serialOf(c *x509.Certificate) string { return c.SerialNumber.Text(16) }

// sameSerial compares hexadecimal serial numbers whatever their case, colons and leading zeros.
func sameSerial(a, b string) bool {
	x, okA := new(big.Int).SetString(strings.ReplaceAll(a, ":", ""), 16)
	y, okB := new(big.Int).SetString(strings.ReplaceAll(b, ":", ""), 16)
	return okA && okB && x.Cmp(y) == 0
}
