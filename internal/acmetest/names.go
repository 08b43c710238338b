package acmetest

import (
	"errors"
	"fmt"
	"testing"
)

// SetA makes host resolve to the given IPv4 addresses instead of the default.
func (s *Server) SetA(t testing.TB, host string, addresses ...string) {
	t.Helper()
	s.must(t, "set-a", host, addresses)
}

// ClearA makes host resolve to the default again.
func (s *Server) ClearA(t testing.TB, host string) {
	t.Helper()
	s.must(t, "clear-a", host, nil)
}

// SetDefaultA sets the IPv4 address of every name without one of its own, at first 127.0.0.1; ""
// leaves such names without an address.
func (s *Server) SetDefaultA(t testing.TB, address string) {
	t.Helper()
	s.must(t, "set-default", "", []string{address})
}

// AddTXT adds TXT records to host, for DNS-01 (RFC 8555 section 8.4).
func (s *Server) AddTXT(t testing.TB, host string, values ...string) {
	t.Helper()
	s.must(t, "add-txt", host, values)
}

// ClearTXT removes all TXT records of host.
func (s *Server) ClearTXT(t testing.TB, host string) {
	t.Helper()
	s.must(t, "clear-txt", host, nil)
}

// FailValidation makes every validation of host fail, by SERVFAIL to all its DNS queries, until
// AllowValidation.
func (s *Server) FailValidation(t testing.TB, host string) {
	t.Helper()
	s.must(t, "fail", host, nil)
}

// AllowValidation ends what FailValidation began.
func (s *Server) AllowValidation(t testing.TB, host string) {
	t.Helper()
	s.must(t, "heal", host, nil)
}

func (s *Server) must(t testing.TB, op, host string, values []string) {
	t.Helper()
	if err := s.control(op, host, values); err != nil {
		t.Fatalf("ACME server: %s %s: %v", op, host, err)
	}
}

func (s *Server) control(op, host string, values []string) error {
	var answer struct {
		Error string `json:"error"`
	}
	in := struct {
		Op     string   `json:"op"`
		Host   string   `json:"host"`
		Values []string `json:"values"`
	}{op, host, values}
	if err := s.exchange(in, &answer); err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}
