package material

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"

	pkcs12 "software.sslmate.com/src/go-pkcs12"
)

// File is one file an install item may copy.
type File struct {
	Data []byte
	// Source is a digest of what Data was made from. It stays the same when the
	// same content is encoded again: PKCS#12 is salted, its bytes never repeat.
	Source string
	// Secret files hold a private key.
	Secret bool
}

// Object is a certificate or a CA with all its files, by their `from` names.
type Object struct {
	Serial   string // of the leaf or CA, lower-case hex without leading zeros
	NotAfter int64  // Unix ms
	Files    map[string]File
}

// Certificate makes the files of a certificate. Without a key in rec it makes
// the public ones only. pfxPassword protects bundle.pfx.
func Certificate(device DeviceKey, rec Record, pfxPassword string) (*Object, error) {
	text := rec.Cert
	if text == "" {
		text = rec.CertificatePEM
	}
	certs, err := ParseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("certificate %d: %w", rec.ID, err)
	}
	if len(certs) == 1 && rec.ChainPEM != "" {
		issuers, err := ParseCertificates(rec.ChainPEM)
		if err != nil {
			return nil, fmt.Errorf("chain of certificate %d: %w", rec.ID, err)
		}
		certs = append(certs, issuers...)
	}
	o := public(rec, certs)
	if !rec.HasKey() {
		return o, nil
	}
	if err := o.addKey(device, rec, certs, pfxPassword); err != nil {
		return nil, fmt.Errorf("certificate %d: %w", rec.ID, err)
	}
	return o, nil
}

func public(rec Record, certs []*x509.Certificate) *Object {
	leaf := certs[0]
	o := &Object{Serial: leaf.SerialNumber.Text(16), NotAfter: leaf.NotAfter.UnixMilli(), Files: map[string]File{}}
	o.add("certificate.pem", encodeCerts(certs[:1]))
	o.add("chain.pem", encodeCerts(certs[1:]))
	o.add("fullchain.pem", encodeCerts(certs))
	o.add("certificate.der", leaf.Raw)
	o.add("meta.json", meta(rec.ID, "cert_id", rec.DomainName, leaf))
	return o
}

func (o *Object) addKey(device DeviceKey, rec Record, certs []*x509.Certificate, pfxPassword string) error {
	raw, err := OpenKey(device, rec.Sealed)
	if err != nil {
		return err
	}
	key, err := ParseKey(raw)
	if err != nil {
		return err
	}
	if err := checkPair(certs[0], key); err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode private key: %w", err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	o.Files["private.key"] = File{Data: keyPEM, Source: digest(keyPEM), Secret: true}
	return o.addPFX(key, certs, der, pfxPassword)
}

func (o *Object) addPFX(key crypto.Signer, certs []*x509.Certificate, keyDER []byte, password string) error {
	pfx, err := pkcs12.Modern2023.Encode(key, certs[0], certs[1:], password)
	if err != nil {
		return fmt.Errorf("encode bundle.pfx: %w", err)
	}
	source := digest(keyDER, o.Files["fullchain.pem"].Data, []byte(password))
	o.Files["bundle.pfx"] = File{Data: pfx, Source: source, Secret: true}
	return nil
}

// Authority makes the files of a CA: ca.pem, ca.der and meta.json.
func Authority(ca CA) (*Object, error) {
	certs, err := ParseCertificates(ca.CertificatePEM)
	if err != nil {
		return nil, fmt.Errorf("CA %d: %w", ca.ID, err)
	}
	root := certs[0]
	o := &Object{Serial: root.SerialNumber.Text(16), NotAfter: root.NotAfter.UnixMilli(), Files: map[string]File{}}
	o.add("ca.pem", encodeCerts(certs))
	o.add("ca.der", root.Raw)
	o.add("meta.json", meta(ca.ID, "ca_id", ca.Name, root))
	return o, nil
}

func (o *Object) add(name string, data []byte) {
	o.Files[name] = File{Data: data, Source: digest(data)}
}

func encodeCerts(certs []*x509.Certificate) []byte {
	text := []byte{}
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}

func meta(id int64, idName, name string, cert *x509.Certificate) []byte {
	// Strings and numbers only: encoding cannot fail.
	data, _ := json.Marshal(map[string]any{
		idName:          id,
		"name":          name,
		"serial_number": cert.SerialNumber.Text(16),
		"not_before":    cert.NotBefore.UnixMilli(),
		"not_after":     cert.NotAfter.UnixMilli(),
	})
	return append(data, '\n')
}

// digest hashes parts with their lengths, so that no two lists collide.
func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
