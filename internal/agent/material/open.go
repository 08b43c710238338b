package material

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
)

// ErrForeignKey is wrapped by OpenKey when the private key is sealed to
// another device key than ours.
var ErrForeignKey = errors.New("the private key is sealed to another device key")

// OpenKey gives the private key of an answer as the bytes the server sealed:
// DER, or PEM starting with "-----BEGIN" (wire.md 7.4).
func OpenKey(device DeviceKey, s Sealed) ([]byte, error) {
	switch s.EncScheme {
	case "aes256gcm":
		return openAEAD(device, s)
	case "plaintext":
		if s.PrivateKeyPEM != "" {
			return []byte(s.PrivateKeyPEM), nil
		}
		return decode("private_key_der_b64", s.PrivateKeyDERB64, 0)
	}
	return nil, fmt.Errorf("enc_scheme %q is not known to this agent (aes256gcm, plaintext): update the agent", s.EncScheme)
}

func openAEAD(device DeviceKey, s Sealed) ([]byte, error) {
	if s.WrapAlg != "x25519" {
		return nil, fmt.Errorf("wrap_alg %q is not known to this agent (x25519): update the agent", s.WrapAlg)
	}
	if s.DeviceKeyFPB64 != device.FingerprintB64() {
		return nil, fmt.Errorf("%w (fingerprint %s, ours %s): register this device again with certharbor-agent login",
			ErrForeignKey, s.DeviceKeyFPB64, device.FingerprintB64())
	}
	sealed, err := decode("enc_data_key_b64", s.EncDataKeyB64, 80)
	if err != nil {
		return nil, err
	}
	dataKey, ok := device.openBox(sealed)
	if !ok {
		return nil, errors.New("enc_data_key_b64 does not open with the device key")
	}
	nonce, err := decode("privkey_nonce_b64", s.PrivKeyNonceB64, 12)
	if err != nil {
		return nil, err
	}
	tag, err := decode("privkey_tag_b64", s.PrivKeyTagB64, 16)
	if err != nil {
		return nil, err
	}
	text, err := decode("enc_privkey_b64", s.EncPrivKeyB64, 0)
	if err != nil {
		return nil, err
	}
	return openGCM(dataKey, nonce, append(text, tag...))
}

func openGCM(key, nonce, textAndTag []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("data key: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("data key: %w", err)
	}
	plain, err := gcm.Open(nil, nonce, textAndTag, nil)
	if err != nil {
		return nil, errors.New("enc_privkey_b64 was altered: its tag does not fit")
	}
	return plain, nil
}

// decode reads base64 of exactly size bytes, or of any size when that is 0.
func decode(member, text string, size int) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%s is not base64", member)
	}
	if size != 0 && len(data) != size || len(data) == 0 {
		return nil, fmt.Errorf("%s holds %d bytes", member, len(data))
	}
	return data, nil
}
