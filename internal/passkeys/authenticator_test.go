package passkeys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"testing"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
)

// Flags of authenticator data (Web Authentication Level 2, section 6.1).
const (
	present  = 0x01
	verified = 0x04
	eligible = 0x08 // may be synced
	backedUp = 0x10
	attested = 0x40
)

// authenticator is a passkey in software, with the browser before it. Whatever
// a test wants to be wrong is changed in its fields, or with change.
type authenticator struct {
	key     crypto.Signer
	cose    map[int]any
	id      []byte
	handle  []byte // as registered
	flags   byte
	counter uint32 // counts up unless 0
	origin  string
	rpID    string
	format  string // of the attestation

	change func(c *clientData, authData []byte) []byte // before signing
	after  func(body map[string]any)                   // after it
}

//nolint:tagliatelle // the names of Web Authentication
type clientData struct {
	Type        string `json:"type"`
	Challenge   string `json:"challenge"`
	Origin      string `json:"origin"`
	CrossOrigin bool   `json:"crossOrigin"`
}

func newAuthenticator(t testing.TB, algorithm string) *authenticator {
	t.Helper()
	a := &authenticator{id: random(32), flags: present | verified, counter: 1, origin: origin, rpID: "certs.example.org", format: "none"}
	switch algorithm {
	case "ES256":
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		point, err := key.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		a.key, a.cose = key, map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]}
	case "EdDSA":
		public, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		a.key, a.cose = key, map[int]any{1: 1, 3: -8, -1: 6, -2: []byte(public)}
	case "RS256":
		a.useRSA(t, 2048)
	}
	return a
}

func (a *authenticator) useRSA(t testing.TB, bits int) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	a.key, a.cose = key, map[int]any{1: 3, 3: -257, -1: key.N.Bytes(), -2: big.NewInt(int64(key.E)).Bytes()}
}

func random(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.Read(data)
	return data
}

func text(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func bytesOf(options map[string]any, path ...string) []byte {
	for _, member := range path[:len(path)-1] {
		options = options[member].(map[string]any)
	}
	data, _ := base64.RawURLEncoding.DecodeString(options[path[len(path)-1]].(string))
	return data
}

// authData is the authenticator data for a ceremony.
func (a *authenticator) authData(flags byte, more ...[]byte) []byte {
	rp := sha256.Sum256([]byte(a.rpID))
	out := append(append([]byte{}, rp[:]...), flags)
	out = binary.BigEndian.AppendUint32(out, a.counter)
	if a.counter > 0 {
		a.counter++
	}
	for _, part := range more {
		out = append(out, part...)
	}
	return out
}

// client is what the browser says; authData may be changed with it.
func (a *authenticator) client(kind string, options map[string]any, authData []byte) (string, []byte) {
	c := clientData{Type: kind, Challenge: options["challenge"].(string), Origin: a.origin}
	if a.change != nil {
		authData = a.change(&c, authData)
	}
	out, _ := json.Marshal(c)
	return string(out), authData
}

// create makes the body of register/verify.
func (a *authenticator) create(options map[string]any) map[string]any {
	a.handle = bytesOf(options, "user", "id")
	cose, _ := webauthncbor.Marshal(a.cose)
	id := binary.BigEndian.AppendUint16(nil, uint16(len(a.id)))
	authData := a.authData(a.flags|attested, make([]byte, 16), id, a.id, cose)
	client, authData := a.client("webauthn.create", options, authData)
	object, _ := webauthncbor.Marshal(map[string]any{"fmt": a.format, "attStmt": map[string]any{}, "authData": authData})
	body := map[string]any{
		"id": text(a.id), "rawId": text(a.id), "type": "public-key", "authenticatorAttachment": "platform",
		"clientExtensionResults": map[string]any{"credProps": map[string]any{"rk": true}},
		"response": map[string]any{
			"clientDataJSON": text([]byte(client)), "attestationObject": text(object), "transports": []string{"internal", "hybrid"},
			"publicKeyAlgorithm": a.cose[3], "publicKey": "AA", "authenticatorData": text(authData),
		},
	}
	if a.after != nil {
		a.after(body)
	}
	return body
}

// get makes the body of login/verify and step-up/verify.
func (a *authenticator) get(options map[string]any) map[string]any {
	client, authData := a.client("webauthn.get", options, a.authData(a.flags))
	hash := sha256.Sum256([]byte(client))
	body := map[string]any{
		"id": text(a.id), "rawId": text(a.id), "type": "public-key", "authenticatorAttachment": "platform", "clientExtensionResults": map[string]any{},
		"response": map[string]any{
			"clientDataJSON": text([]byte(client)), "authenticatorData": text(authData),
			"signature": text(a.sign(append(append([]byte{}, authData...), hash[:]...))), "userHandle": text(a.handle),
		},
	}
	if a.after != nil {
		a.after(body)
	}
	return body
}

func (a *authenticator) sign(message []byte) []byte {
	if key, ok := a.key.(ed25519.PrivateKey); ok {
		return ed25519.Sign(key, message)
	}
	digest := sha256.Sum256(message)
	signature, err := a.key.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		panic(err)
	}
	return signature
}

// response changes a member of the response of a body.
func response(member string, value any) func(map[string]any) {
	return func(body map[string]any) { body["response"].(map[string]any)[member] = value }
}
