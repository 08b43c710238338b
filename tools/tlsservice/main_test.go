package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ctx, cancel := context.WithCancel(t.Context())
	reload := make(chan os.Signal)
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"-cert", certFile, "-key", keyFile}, reload, writer)
		_ = writer.Close()
	}()
	lines := bufio.NewScanner(reader)
	next := func(prefix string) string {
		t.Helper()
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), prefix) {
			t.Fatalf("printed %q, want a line with %q", lines.Text(), prefix)
		}
		return strings.TrimPrefix(lines.Text(), prefix)
	}

	next("refused:")
	address := next("listening ")
	if _, err := serial(address); err == nil {
		t.Error("a handshake succeeded before there was a certificate")
	}
	steps := []struct {
		name    string
		prepare func()
		line    string
		serial  int64
	}{
		{"first pair", func() { writePair(t, certFile, keyFile, 17) }, "serving 11", 17},
		{"cut off certificate", func() { write(t, certFile, []byte("-----BEGIN CERT")) }, "refused:", 17},
		{"key of another", func() { writePair(t, certFile, filepath.Join(dir, "other"), 18) }, "refused:", 17},
		{"second pair", func() { writePair(t, certFile, keyFile, 19) }, "serving 13", 19},
	}
	for _, step := range steps {
		step.prepare()
		reload <- syscall.SIGHUP
		next(step.line)
		if got, err := serial(address); err != nil || got != step.serial {
			t.Errorf("%s: serial %d, %v; want %d", step.name, got, err, step.serial)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

// serial returns the serial number that a handshake with address shows.
func serial(address string) (int64, error) {
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func writePair(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	write(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
