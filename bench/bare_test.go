package bench

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	_ "modernc.org/sqlite"
)

// bareSecret signs the tokens of the bare server; it guards nothing.
var bareSecret = []byte("0123456789abcdef0123456789abcdef")

func TestMain(m *testing.M) {
	if name := os.Getenv("BENCH_BARE"); name != "" {
		if err := serveBare(name, os.Getenv("BENCH_ADDR"), os.Getenv("BENCH_FOLDER")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func serveBare(name, addr, folder string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	switch name {
	case "jwt":
		mux.HandleFunc("GET /poll", barePoll)
	case "hash":
		mux.HandleFunc("GET /hash", bareHash)
	case "certificates":
		db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "certharbor.db")+"?_pragma=query_only(1)&_pragma=journal_mode(WAL)")
		if err != nil {
			return err
		}
		b, err := newBareCertificates(db)
		if err != nil {
			return err
		}
		mux.HandleFunc("GET /certificates/{id}", b.one)
		mux.HandleFunc("GET /certificates", b.list)
	}
	return http.ListenAndServe(addr, mux)
}

// barePoll verifies an HS256 token and answers that there is nothing new.
func barePoll(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	_, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return bareSecret, nil }, jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired())
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("ETag", `"0-0"`)
	w.WriteHeader(http.StatusNoContent)
}

// bareCertificates looks a hashed credential up and reads certificates: two
// prepared queries and the same record as JSON, nothing else.
type bareCertificates struct{ session, byID, page *sql.Stmt }

const bareColumns = `id, user_id, COALESCE(acct_id, 0), public_id, domain_name, sans, organization, organizational_unit, country, state, locality,
	key_algorithm, policy, server_decrypt_export, challenge, auto_renew, renew_before_days, renewal_window, verified, serial_number,
	fingerprint_sha256, issuer, self_signed, not_before, not_after, revoked_at, next_renewal_at, last_issue_id, last_issue_status,
	last_issue_at, created_at, updated_at`

func newBareCertificates(db *sql.DB) (*bareCertificates, error) {
	var b bareCertificates
	var err error
	if b.session, err = db.Prepare("SELECT user_id FROM sessions WHERE token_hash = $1"); err != nil {
		return nil, err
	}
	if b.byID, err = db.Prepare("SELECT " + bareColumns + " FROM certificates WHERE user_id = $1 AND id = $2"); err != nil {
		return nil, err
	}
	b.page, err = db.Prepare("SELECT " + bareColumns + " FROM certificates WHERE user_id = $1 ORDER BY id DESC LIMIT 100")
	return &b, err
}

type bareRecord struct {
	ID                  int64           `json:"id"`
	UserID              int64           `json:"user_id"`
	AcctID              int64           `json:"acct_id"`
	PublicID            string          `json:"public_id"`
	DomainName          string          `json:"domain_name"`
	SANs                json.RawMessage `json:"sans"`
	Organization        string          `json:"organization"`
	OrganizationalUnit  string          `json:"organizational_unit"`
	Country             string          `json:"country"`
	State               string          `json:"state"`
	Locality            string          `json:"locality"`
	KeyAlgorithm        string          `json:"key_algorithm"`
	Policy              string          `json:"key_dist_policy"`
	ServerDecryptExport bool            `json:"server_decrypt_export"`
	Challenge           string          `json:"challenge"`
	AutoRenew           bool            `json:"auto_renew"`
	RenewBeforeDays     int64           `json:"renew_before_days"`
	RenewalWindow       string          `json:"renewal_window"`
	Verified            bool            `json:"verified"`
	SerialNumber        string          `json:"serial_number"`
	Fingerprint         string          `json:"fingerprint_sha256"`
	Issuer              string          `json:"issuer"`
	SelfSigned          bool            `json:"self_signed"`
	NotBefore           int64           `json:"not_before"`
	NotAfter            int64           `json:"not_after"`
	RevokedAt           int64           `json:"revoked_at"`
	NextRenewalAt       int64           `json:"next_renewal_at"`
	LastIssueID         int64           `json:"last_issue_id"`
	LastIssueStatus     string          `json:"last_issue_status"`
	LastIssueAt         int64           `json:"last_issue_at"`
	CreatedAt           int64           `json:"created_at"`
	UpdatedAt           int64           `json:"updated_at"`
}

func (c *bareRecord) scan(scan func(...any) error) error {
	var sans string
	err := scan(&c.ID, &c.UserID, &c.AcctID, &c.PublicID, &c.DomainName, &sans, &c.Organization, &c.OrganizationalUnit, &c.Country, &c.State, &c.Locality,
		&c.KeyAlgorithm, &c.Policy, &c.ServerDecryptExport, &c.Challenge, &c.AutoRenew, &c.RenewBeforeDays, &c.RenewalWindow, &c.Verified, &c.SerialNumber,
		&c.Fingerprint, &c.Issuer, &c.SelfSigned, &c.NotBefore, &c.NotAfter, &c.RevokedAt, &c.NextRenewalAt, &c.LastIssueID, &c.LastIssueStatus,
		&c.LastIssueAt, &c.CreatedAt, &c.UpdatedAt)
	c.SANs = json.RawMessage(sans)
	return err
}

func (b *bareCertificates) user(r *http.Request) (id int64, err error) {
	cookie, err := r.Cookie("certharbor_session")
	if err != nil {
		return 0, err
	}
	hash := sha256.Sum256([]byte(cookie.Value))
	err = b.session.QueryRow(hash[:]).Scan(&id)
	return id, err
}

func (b *bareCertificates) one(w http.ResponseWriter, r *http.Request) {
	user, err := b.user(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var c bareRecord
	if err := c.scan(b.byID.QueryRow(user, r.PathValue("id")).Scan); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	writeBare(w, c)
}

func (b *bareCertificates) list(w http.ResponseWriter, r *http.Request) {
	user, err := b.user(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	rows, err := b.page.Query(user)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer rows.Close()
	page := make([]bareRecord, 0, 100)
	for rows.Next() {
		var c bareRecord
		if err := c.scan(rows.Scan); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		page = append(page, c)
	}
	if err := rows.Err(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBare(w, page)
}

func writeBare(w http.ResponseWriter, data any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
}
