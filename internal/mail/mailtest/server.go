// Package mailtest is a real SMTP server for tests: it listens on a socket,
// offers STARTTLS with a certificate of its own and SASL, keeps what it takes
// and refuses what a test wants refused.
package mailtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// The only account of the server.
const (
	User     = "mailer"
	Password = "Canary-SMTP-Password-55" //nolint:gosec // of a server that lives as long as a test
)

// Options say what the server does. The zero value takes everything in clear.
type Options struct {
	TLS      bool // offer STARTTLS
	Implicit bool // speak TLS from the start
	Auth     bool // take mail after authentication alone
	// Refuse is asked for every recipient, with the number of times it was
	// asked before; nil: nobody is refused. An *smtp.SMTPError is the answer.
	Refuse func(to string, before int) error
}

// Mail is one that was taken.
type Mail struct {
	From, To, User string
	TLS            bool
	Data           string // the message as it came
}

// Server is a running server. It ends with the test.
type Server struct {
	Address  string
	CAFile   string // PEM of its certificate
	Received chan Mail
	o        Options
	mu       sync.Mutex
	asked    int
}

// Start runs a server on a free port of loopback.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{Received: make(chan Mail, 1000), o: o, CAFile: filepath.Join(t.TempDir(), "ca.pem")}
	config, certificate := ownTLS(t)
	if err := os.WriteFile(s.CAFile, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &session{s: s, conn: c}, nil }))
	server.Domain, server.ErrorLog = "mail.test", log.New(io.Discard, "", 0)
	server.ReadTimeout, server.WriteTimeout = time.Minute, time.Minute
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Address = listener.Addr().String()
	if o.TLS {
		server.TLSConfig = config
	}
	if o.Implicit {
		listener = tls.NewListener(listener, config)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return s
}

type session struct {
	s        *Server
	conn     *smtp.Conn
	user     string
	from, to string
}

func (x *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (x *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != User || password != Password {
			return errors.New("wrong")
		}
		x.user = user
		return nil
	}), nil
}

func (x *session) Mail(from string, _ *smtp.MailOptions) error {
	if x.s.o.Auth && x.user == "" {
		return smtp.ErrAuthRequired
	}
	x.from = from
	return nil
}

func (x *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	x.to = to
	if x.s.o.Refuse == nil {
		return nil
	}
	x.s.mu.Lock()
	before := x.s.asked
	x.s.asked++
	x.s.mu.Unlock()
	return x.s.o.Refuse(to, before)
}

func (x *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	_, overTLS := x.conn.TLSConnectionState()
	x.s.Received <- Mail{From: x.from, To: x.to, User: x.user, TLS: overTLS, Data: string(data)}
	return nil
}

func (x *session) Reset() { x.from, x.to = "", "" }

func (x *session) Logout() error { return nil }

// Next returns the next mail that is taken.
func (s *Server) Next(t testing.TB) Mail {
	t.Helper()
	select {
	case m := <-s.Received:
		return m
	case <-time.After(2 * time.Minute):
		t.Fatal("no mail in 30 s")
		panic("unreachable")
	}
}

// Refusal is an answer of the server, for example 451.
func Refusal(code int, what string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 0, 0}, Message: what}
}

func ownTLS(t testing.TB) (*tls.Config, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
