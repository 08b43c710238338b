package hostile

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// order is the state of one order. Authorizations share its fate.
type order struct {
	id     string
	status string
	ids    []identifier
	valid  []bool
	chain  string
}

type identifier struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// honest gives the handler that does what RFC 8555 says.
func (ca *CA) honest(step Step) http.HandlerFunc {
	handlers := map[Step]http.HandlerFunc{
		Directory: ca.directory, NewNonce: func(http.ResponseWriter, *http.Request) {}, RenewalInfo: ca.renewal,
		NewAccount: ca.signed(ca.newAccount), NewOrder: ca.signed(ca.newOrder), Order: ca.signed(ca.showOrder),
		Authorization: ca.signed(ca.authorization), Challenge: ca.signed(ca.challenge),
		Finalize: ca.signed(ca.finalize), Certificate: ca.signed(ca.certificate),
		Revoke: ca.signed(func(http.ResponseWriter, *http.Request, message) {}),
	}
	if handler, ok := handlers[step]; ok {
		return handler
	}
	return http.NotFound
}

// message is what a signed request says. Signatures are not verified.
type message struct {
	head    struct{ Nonce, URL, Kid string }
	jwk     json.RawMessage
	payload []byte
}

// signed reads the JWS and refuses a wrong nonce (RFC 8555 section 6.5).
func (ca *CA) signed(next func(http.ResponseWriter, *http.Request, message)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var jws struct{ Protected, Payload, Signature string }
		var msg message
		if err := json.NewDecoder(r.Body).Decode(&jws); err != nil {
			Problem(http.StatusBadRequest, "malformed", "no JWS")(w, r, nil)
			return
		}
		head, _ := base64.RawURLEncoding.DecodeString(jws.Protected)
		msg.payload, _ = base64.RawURLEncoding.DecodeString(jws.Payload)
		var key struct {
			JWK json.RawMessage `json:"jwk"`
		}
		if json.Unmarshal(head, &msg.head) != nil || json.Unmarshal(head, &key) != nil {
			Problem(http.StatusBadRequest, "malformed", "no JWS header")(w, r, nil)
			return
		}
		msg.jwk = key.JWK
		ca.mu.Lock()
		known := ca.nonces[msg.head.Nonce]
		delete(ca.nonces, msg.head.Nonce)
		ca.mu.Unlock()
		if !known {
			BadNonce()(w, r, nil)
			return
		}
		next(w, r, msg)
	}
}

func (ca *CA) directory(w http.ResponseWriter, _ *http.Request) {
	show(w, http.StatusOK, map[string]any{
		"newNonce": ca.URL + "/nonce", "newAccount": ca.URL + "/account", "newOrder": ca.URL + "/neworder",
		"revokeCert": ca.URL + "/revoke", "keyChange": ca.URL + "/keychange", "renewalInfo": ca.URL + "/renewal",
		"meta": map[string]any{"profiles": map[string]string{"default": "the usual"}},
	})
}

func (ca *CA) newAccount(w http.ResponseWriter, r *http.Request, msg message) {
	var in struct {
		OnlyReturnExisting bool
	}
	_ = json.Unmarshal(msg.payload, &in)
	ca.mu.Lock()
	id, known := ca.accounts[string(msg.jwk)]
	if !known && !in.OnlyReturnExisting {
		id = len(ca.accounts) + 1
		ca.accounts[string(msg.jwk)] = id
	}
	ca.mu.Unlock()
	switch {
	case !known && in.OnlyReturnExisting:
		Problem(http.StatusBadRequest, "accountDoesNotExist", "no account for this key")(w, r, nil)
		return
	case known:
		w.Header().Set("Location", fmt.Sprintf("%s/account/%d", ca.URL, id))
		show(w, http.StatusOK, map[string]any{"status": "valid"})
	default:
		w.Header().Set("Location", fmt.Sprintf("%s/account/%d", ca.URL, id))
		show(w, http.StatusCreated, map[string]any{"status": "valid"})
	}
}

func (ca *CA) newOrder(w http.ResponseWriter, r *http.Request, msg message) {
	var in struct{ Identifiers []identifier }
	if json.Unmarshal(msg.payload, &in) != nil || len(in.Identifiers) == 0 {
		Problem(http.StatusBadRequest, "malformed", "no identifiers")(w, r, nil)
		return
	}
	ca.mu.Lock()
	defer ca.mu.Unlock()
	o := &order{id: ca.number(), status: "pending", ids: in.Identifiers, valid: make([]bool, len(in.Identifiers))}
	ca.orders = append(ca.orders, o)
	w.Header().Set("Location", ca.URL+"/order/"+o.id)
	show(w, http.StatusCreated, ca.view(o))
}

func (ca *CA) view(o *order) map[string]any {
	var authorizations []string
	for i := range o.ids {
		authorizations = append(authorizations, fmt.Sprintf("%s/authz/%s/%d", ca.URL, o.id, i))
	}
	out := map[string]any{
		"status": o.status, "identifiers": o.ids, "authorizations": authorizations,
		"finalize": ca.URL + "/finalize/" + o.id, "expires": ca.now().Add(time.Hour).Format(time.RFC3339),
	}
	if o.status == "valid" {
		out["certificate"] = ca.URL + "/cert/" + o.id
	}
	return out
}

// find gives the order a path names and, for authorizations and challenges,
// the index of the name. ca.mu must be held.
func (ca *CA) find(path string) (*order, int) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var index int
	if len(parts) > 2 {
		_, _ = fmt.Sscan(parts[2], &index)
	}
	for _, o := range slices.Backward(ca.orders) { // mostly asked for the newest
		if len(parts) > 1 && o.id == parts[1] && index < len(o.ids) {
			return o, index
		}
	}
	return nil, 0
}

func (ca *CA) withOrder(w http.ResponseWriter, r *http.Request, fn func(o *order, index int)) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	o, index := ca.find(r.URL.Path)
	if o == nil {
		Problem(http.StatusNotFound, "malformed", "no such order")(w, r, nil)
		return
	}
	fn(o, index)
}

func (ca *CA) showOrder(w http.ResponseWriter, r *http.Request, _ message) {
	ca.withOrder(w, r, func(o *order, _ int) { show(w, http.StatusOK, ca.view(o)) })
}

func (ca *CA) authorization(w http.ResponseWriter, r *http.Request, _ message) {
	ca.withOrder(w, r, func(o *order, i int) { show(w, http.StatusOK, ca.authorizationView(o, i)) })
}

func (ca *CA) authorizationView(o *order, i int) map[string]any {
	status := "pending"
	if o.valid[i] {
		status = "valid"
	}
	id := o.ids[i]
	name, wildcard := strings.CutPrefix(id.Value, "*.")
	return map[string]any{
		"status": status, "identifier": identifier{id.Type, name}, "wildcard": wildcard,
		"challenges": []any{ca.challengeView(o, i, status)},
	}
}

func (ca *CA) challengeView(o *order, i int, status string) map[string]any {
	return map[string]any{
		"type": "http-01", "status": status, "url": fmt.Sprintf("%s/challenge/%s/%d", ca.URL, o.id, i),
		"token": fmt.Sprintf("token_for_order_%s_name_%d", o.id, i),
	}
}

func (ca *CA) challenge(w http.ResponseWriter, r *http.Request, _ message) {
	ca.withOrder(w, r, func(o *order, i int) {
		if o.valid[i] {
			Problem(http.StatusBadRequest, "malformed", "the authorization is not pending")(w, r, nil)
			return
		}
		o.valid[i] = true
		ready := true
		for _, valid := range o.valid {
			ready = ready && valid
		}
		if ready {
			o.status = "ready"
		}
		show(w, http.StatusOK, ca.challengeView(o, i, "valid"))
	})
}

func (ca *CA) finalize(w http.ResponseWriter, r *http.Request, msg message) {
	ca.withOrder(w, r, func(o *order, _ int) {
		if o.status != "ready" {
			Problem(http.StatusForbidden, "orderNotReady", "the order is "+o.status)(w, r, nil)
			return
		}
		var in struct{ CSR string }
		_ = json.Unmarshal(msg.payload, &in)
		der, _ := base64.RawURLEncoding.DecodeString(in.CSR)
		csr, err := x509.ParseCertificateRequest(der)
		if err != nil || csr.CheckSignature() != nil {
			Problem(http.StatusBadRequest, "badCSR", "no CSR")(w, r, nil)
			return
		}
		if o.chain, err = ca.issue(o, csr.PublicKey); err != nil {
			Problem(http.StatusInternalServerError, "serverInternal", err.Error())(w, r, nil)
			return
		}
		o.status = "valid"
		ca.issued++
		show(w, http.StatusOK, ca.view(o))
	})
}

// issue signs a certificate for the order's names. ca.mu must be held.
func (ca *CA) issue(o *order, key any) (string, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: ca.now().Add(-time.Minute), NotAfter: ca.now().Add(ca.lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, id := range o.ids {
		if ip := net.ParseIP(id.Value); id.Type == "ip" && ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, id.Value)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.issuer, key, ca.issuerKey)
	if err != nil {
		return "", err
	}
	return encode(der) + ca.IssuerRootPEM, nil
}

func (ca *CA) certificate(w http.ResponseWriter, r *http.Request, _ message) {
	ca.withOrder(w, r, func(o *order, _ int) {
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		_, _ = w.Write([]byte(o.chain))
	})
}

func (ca *CA) renewal(w http.ResponseWriter, _ *http.Request) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	w.Header().Set("Retry-After", "21600")
	start := ca.now().Add(ca.lifetime / 2)
	show(w, http.StatusOK, map[string]any{"suggestedWindow": map[string]any{
		"start": start.Format(time.RFC3339), "end": start.Add(ca.lifetime / 10).Format(time.RFC3339),
	}})
}

func show(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
