package wiretest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/nacl/box"
)

type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	next int64
}

// cert is a certificate that is assigned to every device.
type cert struct {
	id      int64
	serial  string
	text    string
	keyDER  []byte
	pending bool   // wraps are not ready
	policy  string // of wire.md 7.4
}

func newAuthority() *authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0xca), Subject: pkix.Name{CommonName: "wiretest CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &authority{key: key, cert: must(x509.ParseCertificate(der)), next: 0x100}
}

// Issue makes or renews certificate id for the name, assigned to all devices,
// and gives its serial (lower-case hex).
func (s *Server) Issue(id int64, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ca.next++
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(s.ca.next), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(12 * time.Hour),
	}
	der := must(x509.CreateCertificate(rand.Reader, template, s.ca.cert, key.Public(), s.ca.key))
	c := s.certs[id]
	if c == nil {
		c = &cert{id: id, policy: "HYBRID"}
		s.certs[id] = c
	}
	c.serial = template.SerialNumber.Text(16)
	c.text = string(encodePEM("CERTIFICATE", der)) + string(encodePEM("CERTIFICATE", s.ca.cert.Raw))
	c.keyDER = must(x509.MarshalPKCS8PrivateKey(key))
	s.signal("cert.updated", map[string]any{"cert_id": id, "serial": c.serial})
	return c.serial
}

// SwapKey gives certificate id a private key that does not belong to it.
func (s *Server) SwapKey(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certs[id].keyDER = must(x509.MarshalPKCS8PrivateKey(must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))))
}

// SetPending says whether certificate id still waits for its wrap; the end of
// it is signalled.
func (s *Server) SetPending(id int64, pending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certs[id].pending = pending
	if !pending {
		s.signal("cert.updated", map[string]any{"cert_id": id, "wrap_ready": true, "wrap_alg": "x25519"})
	}
}

// SetPolicy sets MASTER_ONLY (plaintext form), MASTER_ONLY_FORBIDDEN (no
// export), HYBRID or DEVICE_REQUIRED for certificate id.
func (s *Server) SetPolicy(id int64, policy string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certs[id].policy = policy
}

// Unassign takes certificate id from all devices.
func (s *Server) Unassign(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.certs, id)
	s.signal("cert.unassigned", map[string]any{"cert_id": id})
}

func (s *Server) certOf(w http.ResponseWriter, r *http.Request) *cert {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		fail(w, http.StatusBadRequest, 5000, "", nil)
		return nil
	}
	c := s.certs[id]
	if c == nil {
		fail(w, http.StatusNotFound, 5003, "", nil)
	}
	return c
}

func (s *Server) certificate(w http.ResponseWriter, r *http.Request, d *device) {
	c := s.certOf(w, r)
	if c == nil {
		return
	}
	out := map[string]any{
		"id": c.id, "domain_name": "a.test", "acct_id": 1, "user_id": UserID, "sans": []string{}, "serial_number": c.serial,
		"verified": true, "self_signed": false, "key_dist_policy": c.policy, "cert": c.text, "der": "",
	}
	if !c.pending && c.policy != "MASTER_ONLY_FORBIDDEN" {
		maps.Copy(out, c.materials(d))
	}
	data(w, http.StatusOK, out)
}

func (s *Server) deployMaterials(w http.ResponseWriter, r *http.Request, d *device) {
	c := s.certOf(w, r)
	switch {
	case c == nil:
	case c.policy == "MASTER_ONLY_FORBIDDEN":
		fail(w, http.StatusForbidden, 5032, "EXPORT_FORBIDDEN", nil)
	case c.pending:
		fail(w, http.StatusConflict, 5031, "WRAP_PENDING", nil)
	default:
		data(w, http.StatusOK, c.materials(d))
	}
}

// materials gives the key members of wire.md 7.4.
func (c *cert) materials(d *device) map[string]any {
	b64 := base64.StdEncoding.EncodeToString
	if c.policy == "MASTER_ONLY" {
		return map[string]any{"enc_scheme": "plaintext", "private_key_der_b64": b64(c.keyDER), "certificate_pem": c.text}
	}
	dataKey, nonce := make([]byte, 32), make([]byte, 12)
	_, _ = rand.Read(dataKey) //nolint:errcheck // never fails
	_, _ = rand.Read(nonce)   //nolint:errcheck // never fails
	gcm := must(cipher.NewGCM(must(aes.NewCipher(dataKey))))
	sealed := gcm.Seal(nil, nonce, c.keyDER, nil)
	text, tag := sealed[:len(sealed)-16], sealed[len(sealed)-16:]
	fingerprint := blake2b.Sum256(d.pk)
	return map[string]any{
		"enc_scheme": "aes256gcm", "wrap_alg": "x25519", "device_keyfp_b64": b64(fingerprint[:]),
		"enc_data_key_b64": b64(must(box.SealAnonymous(nil, dataKey, (*[32]byte)(d.pk), rand.Reader))),
		"enc_privkey_b64":  b64(text), "privkey_nonce_b64": b64(nonce), "privkey_tag_b64": b64(tag),
	}
}

func (s *Server) caBundle(w http.ResponseWriter, r *http.Request, _ *device) {
	if r.PathValue("id") != "1" {
		fail(w, http.StatusNotFound, 5003, "", nil)
		return
	}
	data(w, http.StatusOK, map[string]any{
		"id": 1, "name": "wiretest CA", "serial_number": "ca", "status": "ACTIVE",
		"ca_certificate_pem": string(encodePEM("CERTIFICATE", s.ca.cert.Raw)),
	})
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
