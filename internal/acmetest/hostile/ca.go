package hostile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Step is one kind of request of RFC 8555.
type Step string

// The steps, by the first part of their paths.
const (
	Directory     Step = "dir"
	NewNonce      Step = "nonce"
	NewAccount    Step = "account"
	NewOrder      Step = "neworder"
	Order         Step = "order"
	Authorization Step = "authz"
	Challenge     Step = "challenge"
	Finalize      Step = "finalize"
	Certificate   Step = "cert"
	Revoke        Step = "revoke"
	RenewalInfo   Step = "renewal"
)

// Steps are all steps.
func Steps() []Step {
	return []Step{Directory, NewNonce, NewAccount, NewOrder, Order, Authorization, Challenge, Finalize, Certificate, Revoke, RenewalInfo}
}

// Answer writes what a step answers. honest is what it would answer otherwise;
// calling it performs the step.
type Answer func(w http.ResponseWriter, r *http.Request, honest http.HandlerFunc)

// CA is a running server. Its methods are safe for concurrent use.
type CA struct {
	// URL is https, on loopback, without a path.
	URL string
	// DirectoryURL is its directory.
	DirectoryURL string
	// CABundlePEM is the root of the server's TLS certificate.
	CABundlePEM string
	// IssuerRootPEM is the root of what it issues.
	IssuerRootPEM string

	server    *httptest.Server
	issuerKey *ecdsa.PrivateKey
	issuer    *x509.Certificate

	mu       sync.Mutex
	next     map[Step][]Answer
	always   map[Step]Answer
	requests map[Step]int
	nonces   map[string]bool
	counter  int
	accounts map[string]int // by key
	orders   []*order
	issued   int
	lifetime time.Duration
	now      func() time.Time
}

// Start starts a CA that ends with the test.
func Start(t testing.TB) *CA {
	t.Helper()
	ca := &CA{
		next: map[Step][]Answer{}, always: map[Step]Answer{}, requests: map[Step]int{},
		nonces: map[string]bool{}, accounts: map[string]int{}, lifetime: 90 * 24 * time.Hour, now: time.Now,
	}
	if err := ca.makeIssuer(); err != nil {
		t.Fatalf("hostile CA: %v", err)
	}
	ca.server = httptest.NewTLSServer(http.HandlerFunc(ca.serve))
	t.Cleanup(func() {
		ca.server.CloseClientConnections()
		ca.server.Close()
	})
	ca.URL, ca.DirectoryURL = ca.server.URL, ca.server.URL+"/dir"
	ca.CABundlePEM = encode(ca.server.Certificate().Raw)
	return ca
}

// Next gives the answers of the next requests of a step, one each.
func (ca *CA) Next(step Step, answers ...Answer) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.next[step] = append(ca.next[step], answers...)
}

// Always gives the answer of all requests of a step, after those of Next; nil
// makes it honest again.
func (ca *CA) Always(step Step, answer Answer) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.always[step] = answer
}

// Lifetime is that of certificates issued from now on, 90 days at first.
func (ca *CA) Lifetime(d time.Duration) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.lifetime = d
}

// Clock is what the CA takes for the time from now on, the system's at first.
func (ca *CA) Clock(now func() time.Time) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.now = now
}

// Requests counts the requests of a step.
func (ca *CA) Requests(step Step) int {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	return ca.requests[step]
}

// Orders counts the orders that were made.
func (ca *CA) Orders() int {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	return len(ca.orders)
}

// Issued counts the certificates that were issued.
func (ca *CA) Issued() int {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	return ca.issued
}

func (ca *CA) serve(w http.ResponseWriter, r *http.Request) {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	step := Step(first)
	ca.mu.Lock()
	ca.requests[step]++
	answer := ca.always[step]
	if queue := ca.next[step]; len(queue) > 0 {
		answer, ca.next[step] = queue[0], queue[1:]
	}
	ca.mu.Unlock()
	if step != Directory && step != RenewalInfo {
		w.Header().Set("Replay-Nonce", ca.nonce())
	}
	honest := ca.honest(step)
	if answer == nil {
		honest(w, r)
		return
	}
	answer(w, r, honest)
}

// number gives a fresh number.
func (ca *CA) number() string {
	ca.counter++
	return strconv.Itoa(ca.counter)
}

func (ca *CA) nonce() string {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	nonce := "nonce-" + ca.number()
	ca.nonces[nonce] = true
	return nonce
}

func (ca *CA) makeIssuer() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hostile test CA"}, SubjectKeyId: []byte{1, 2, 3, 4},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10 * 365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	ca.issuerKey, ca.IssuerRootPEM = key, encode(der)
	ca.issuer, err = x509.ParseCertificate(der)
	return err
}

func encode(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
