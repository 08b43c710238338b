package issuance

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/names"
)

const challengePath = "/.well-known/acme-challenge/"

// tokenForm is that of the tokens which are published: base64url, and short
// enough for a row.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

// Challenges answers HTTP-01 validations (RFC 8555 section 8.3) and nothing
// else, for a listener of its own. It needs no credential: what it gives, every
// authority must be able to read.
func (s *Service) Challenges() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.URL.Path, challengePath)
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		err := s.answer(w, r, token)
		switch {
		case fault.Is(err, fault.CodeNotFound):
			http.NotFound(w, r)
		case err != nil:
			s.Log.ErrorContext(r.Context(), "a challenge could not be answered", "error", err)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		}
	})
}

// answer writes the key authorization of the token, or returns an error before
// it wrote anything.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, token string) error {
	if !tokenForm.MatchString(token) {
		return fault.NotFound("challenge")
	}
	row, err := s.lookUp(r.Context(), token, hostOf(r))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	_, err = w.Write([]byte(row.KeyAuthorization))
	s.answered(row.IssuanceID, token)
	return err
}

// lookUp finds the answer. A token is chosen by an authority, which may be a
// user's own and hostile: where several attempts have the same one, that for
// the name that was asked wins. Behind a proxy that does not pass the name on,
// any will do.
func (s *Service) lookUp(ctx context.Context, token, host string) (answersRow, error) {
	rows, err := New(s.DB.Reader()).answers(ctx, token)
	if err != nil {
		return answersRow{}, fmt.Errorf("look up challenge: %w", err)
	}
	for _, row := range rows {
		if strings.EqualFold(row.Name, host) {
			return row, nil
		}
	}
	if len(rows) == 0 {
		return answersRow{}, fault.NotFound("challenge")
	}
	if name, problem := names.Normal(host); problem == "" && strings.Contains(name, ".") {
		// A name that another user holds is answered for that user alone, and a
		// public one that is yet to be proved for nobody.
		err := s.Names.Check(ctx, s.DB.Reader(), names.Order{UserID: rows[0].UserID, Names: []string{name}, Existing: true})
		if f := fault.As(err); f != nil && net.ParseIP(name) == nil && (f.Key == names.KeyTaken || f.Key == names.KeyUnproved && names.Listed(name)) {
			return answersRow{}, fault.NotFound("challenge")
		}
		if err != nil && !names.Refused(err) {
			return answersRow{}, err
		}
	}
	return rows[0], nil
}

// hostOf gives the name or address that was asked, without port.
func hostOf(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().String()
	}
	return strings.TrimSuffix(host, ".")
}
