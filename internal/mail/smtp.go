package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// smtpTimeout bounds each exchange with the server.
const smtpTimeout = 20 * time.Second

// SMTP is a Transport that speaks to one mail server.
type SMTP struct {
	host     string
	port     int
	user     string
	password string
	from     *mail.Address
	policy   gomail.TLSPolicy
	implicit bool // TLS from the start
	roots    *x509.CertPool
}

// errURL says what is accepted; it never quotes the address, which may hold a
// password.
var errURL = errors.New("must be smtp://user:password@host:587?from=address, or smtps:// for TLS from the start")

// ParseSMTP reads a mail server's address:
//
//	smtp://user:password@host:port?from=…&tls=…&ca-file=…
//
// smtps is TLS from the start (default port 465); smtp (587) follows tls:
// "required" refuses servers without STARTTLS, "opportunistic" uses it when it
// is offered, "none" does not. Without tls it is required where a password is
// sent to another machine, else opportunistic. from is the sender, such as
// noreply@example.org or Certificates <noreply@example.org>. ca-file names a
// PEM file with the roots of a private server. Errors never quote the address.
func ParseSMTP(address string) (*SMTP, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.Fragment != "" {
		return nil, errURL
	}
	s := &SMTP{host: u.Hostname(), port: 587}
	switch u.Scheme {
	case "smtp":
	case "smtps":
		s.implicit, s.port = true, 465
	default:
		return nil, errURL
	}
	if u.Port() != "" {
		if s.port, err = strconv.Atoi(u.Port()); err != nil || s.port < 1 || s.port > 65535 {
			return nil, errURL
		}
	}
	if u.User != nil {
		s.user = u.User.Username()
		s.password, _ = u.User.Password()
	}
	return s, s.options(u.RawQuery)
}

func (s *SMTP) options(raw string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return errURL
	}
	for name := range query {
		if name != "from" && name != "tls" && name != "ca-file" {
			return errors.New("knows the options from, tls and ca-file, no other")
		}
	}
	if s.from, err = mail.ParseAddress(query.Get("from")); err != nil {
		return errors.New("needs the sender: ?from=noreply@example.org")
	}
	switch query.Get("tls") {
	case "":
		s.policy = gomail.TLSOpportunistic
		if s.password != "" && !isLoopback(s.host) {
			s.policy = gomail.TLSMandatory
		}
	case "required":
		s.policy = gomail.TLSMandatory
	case "opportunistic":
		s.policy = gomail.TLSOpportunistic
	case "none":
		s.policy = gomail.NoTLS
	default:
		return errors.New("takes tls=required, opportunistic or none")
	}
	if file := query.Get("ca-file"); file != "" {
		text, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			return fmt.Errorf("ca-file: %w", err)
		}
		if s.roots = x509.NewCertPool(); !s.roots.AppendCertsFromPEM(text) {
			return errors.New("ca-file: holds no certificate in PEM")
		}
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// String describes the server without the password.
func (s *SMTP) String() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// Send implements Transport. It makes a connection of its own: mail is rare.
func (s *SMTP) Send(ctx context.Context, e *Envelope) error {
	message, err := compose(e, s.from)
	if err != nil {
		return err
	}
	options := []gomail.Option{
		gomail.WithPort(s.port), gomail.WithTimeout(smtpTimeout), gomail.WithTLSPolicy(s.policy), gomail.WithHELO(domain(s.from.Address)),
		gomail.WithTLSConfig(&tls.Config{ServerName: s.host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}),
	}
	if s.implicit {
		options = append(options, gomail.WithSSL())
	}
	if s.user != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(s.user), gomail.WithPassword(s.password))
	}
	client, err := gomail.NewClient(s.host, options...)
	if err != nil {
		return fmt.Errorf("make an SMTP client: %w", err)
	}
	err = client.DialAndSendWithContext(ctx, message)
	if err == nil || message.IsDelivered() {
		return nil // the server took it, whatever happened to the QUIT
	}
	if refusal, ok := errors.AsType[*gomail.SendError](err); ok && refusal.ErrorCode() >= 500 && refusal.ErrorCode() <= 599 {
		return &PermanentError{err}
	}
	return err
}

func domain(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }
