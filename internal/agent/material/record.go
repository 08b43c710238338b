package material

// Record is the answer of GET /apiv1/devices/self/certificates/:id (wire.md
// 7.3): the certificate and, when the server may and can give the key, the
// members of deploy-materials (7.4) in AEAD or in plaintext form.
type Record struct {
	ID             int64  `json:"id"`
	DomainName     string `json:"domain_name"`
	SerialNumber   string `json:"serial_number"`
	Cert           string `json:"cert"`
	CertificatePEM string `json:"certificate_pem"`
	ChainPEM       string `json:"chain_pem"`
	Sealed
}

// Sealed holds the key members of wire.md 7.4.
type Sealed struct {
	EncScheme        string `json:"enc_scheme"`
	WrapAlg          string `json:"wrap_alg"`
	DeviceKeyFPB64   string `json:"device_keyfp_b64"`
	EncDataKeyB64    string `json:"enc_data_key_b64"`
	EncPrivKeyB64    string `json:"enc_privkey_b64"`
	PrivKeyNonceB64  string `json:"privkey_nonce_b64"`
	PrivKeyTagB64    string `json:"privkey_tag_b64"`
	PrivateKeyDERB64 string `json:"private_key_der_b64"`
	PrivateKeyPEM    string `json:"private_key_pem"`
}

// HasKey says whether the answer carries a private key in either form.
func (s Sealed) HasKey() bool {
	return s.EncPrivKeyB64 != "" || s.PrivateKeyDERB64 != "" || s.PrivateKeyPEM != ""
}

// CA is the answer of GET /apiv1/devices/self/cas/:id/bundle (wire.md 7.5).
type CA struct {
	ID             int64  `json:"id"`
	Name           string `json:"name"`
	SerialNumber   string `json:"serial_number"`
	CertificatePEM string `json:"ca_certificate_pem"`
}
