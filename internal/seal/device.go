package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/nacl/box"
)

// SealedBoxSize is the length in bytes of a data key wrapped for a device:
// ephemeral public key 32, Poly1305 tag 16, encrypted data key 32.
const SealedBoxSize = 32 + 16 + KeySize

const (
	nonceSize = 12
	tagSize   = 16
)

// ErrDeviceKey says that a device's public key cannot be sealed to: it is not
// 32 bytes in base64, or a point of small order whose boxes anyone could open.
var ErrDeviceKey = errors.New("not a usable X25519 public key of 32 bytes in base64")

// EncryptedKey is a private key under a data key, in the three parts in which
// devices receive it (wire.md 7.4): AES-256-GCM without associated data.
type EncryptedKey struct {
	Ciphertext []byte // as long as the plaintext, without the tag
	Nonce      []byte // 12 bytes
	Tag        []byte // 16 bytes
}

// EncryptPrivateKey encrypts an unencrypted private key (DER, or PEM) under a
// data key of [KeySize] bytes with a fresh nonce. A data key encrypts one
// private key only.
func EncryptPrivateKey(dataKey, der []byte) (EncryptedKey, error) {
	nonce := make([]byte, nonceSize)
	rand.Read(nonce) //nolint:errcheck // crypto/rand.Read never returns an error, it ends the program
	return encryptWithNonce(dataKey, der, nonce)
}

// encryptWithNonce exists apart so that the published vector can be checked.
func encryptWithNonce(dataKey, der, nonce []byte) (EncryptedKey, error) {
	aead, err := deviceAEAD(dataKey)
	if err != nil {
		return EncryptedKey{}, fmt.Errorf("encrypt private key: %w", err)
	}
	sealed := aead.Seal(nil, nonce, der, nil)
	return EncryptedKey{Ciphertext: sealed[:len(der):len(der)], Nonce: nonce, Tag: sealed[len(der):]}, nil
}

// DecryptPrivateKey gives back what [EncryptPrivateKey] took. A wrong data key
// or altered parts give an error that wraps [ErrCorrupt].
func DecryptPrivateKey(dataKey []byte, key EncryptedKey) ([]byte, error) {
	aead, err := deviceAEAD(dataKey)
	if err != nil {
		return nil, fmt.Errorf("decrypt private key: %w", err)
	}
	if len(key.Nonce) != nonceSize || len(key.Tag) != tagSize {
		return nil, fmt.Errorf("decrypt private key: %w: nonce or tag has a wrong length", ErrCorrupt)
	}
	sealed := append(append(make([]byte, 0, len(key.Ciphertext)+tagSize), key.Ciphertext...), key.Tag...)
	der, err := aead.Open(nil, key.Nonce, sealed, nil)
	if err != nil {
		return nil, fmt.Errorf("decrypt private key: %w", ErrCorrupt)
	}
	return der, nil
}

// deviceAEAD is plain AES-256-GCM: the wire carries nonce and tag by themselves.
func deviceAEAD(dataKey []byte) (cipher.AEAD, error) {
	if len(dataKey) != KeySize {
		return nil, fmt.Errorf("data key has %d bytes, needs %d", len(dataKey), KeySize)
	}
	block, err := aes.NewCipher(dataKey)
	if err != nil {
		return nil, fmt.Errorf("aes: %w", err)
	}
	return cipher.NewGCM(block)
}

// ParseDeviceKey reads the dev_pk of a registration: an X25519 public key of
// exactly 32 bytes in padded standard base64. Anything else, and points of small
// order, give [ErrDeviceKey].
func ParseDeviceKey(text string) ([32]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != 32 || base64.StdEncoding.EncodeToString(raw) != text {
		return [32]byte{}, ErrDeviceKey
	}
	devPK := [32]byte(raw)
	return devPK, checkDeviceKey(devPK)
}

// checkDeviceKey refuses points of small order: NaCl does not, and a box sealed
// to one has a key that everybody can compute.
func checkDeviceKey(devPK [32]byte) error {
	public, err := ecdh.X25519().NewPublicKey(devPK[:])
	if err != nil {
		return ErrDeviceKey
	}
	probe, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("x25519: %w", err)
	}
	if _, err := probe.ECDH(public); err != nil {
		return ErrDeviceKey
	}
	return nil
}

// WrapForDevice seals a data key of [KeySize] bytes to a device's public key, as
// libsodium's crypto_box_seal does. It gives [SealedBoxSize] bytes.
func WrapForDevice(devPK [32]byte, dataKey []byte) ([]byte, error) {
	if len(dataKey) != KeySize {
		return nil, fmt.Errorf("wrap for device: data key has %d bytes, needs %d", len(dataKey), KeySize)
	}
	if err := checkDeviceKey(devPK); err != nil {
		return nil, fmt.Errorf("wrap for device: %w", err)
	}
	return wrapWith(devPK, dataKey, rand.Reader)
}

// wrapWith takes the ephemeral secret key from random, so that the published
// vector can be checked.
func wrapWith(devPK [32]byte, dataKey []byte, random io.Reader) ([]byte, error) {
	sealed, err := box.SealAnonymous(nil, dataKey, &devPK, random)
	if err != nil {
		return nil, fmt.Errorf("wrap for device: %w", err)
	}
	return sealed, nil
}

// OpenSealedBox gives the data key of a box made by [WrapForDevice] or by
// libsodium, for the device that holds the secret key. Errors wrap [ErrCorrupt].
func OpenSealedBox(devPK, devSK [32]byte, sealed []byte) ([]byte, error) {
	dataKey, ok := box.OpenAnonymous(nil, sealed, &devPK, &devSK)
	if !ok {
		return nil, fmt.Errorf("open sealed box: %w", ErrCorrupt)
	}
	return dataKey, nil
}

// Fingerprint is the digest by which a device recognises wraps made for its key:
// unkeyed BLAKE2b with 32 bytes over the raw public key.
func Fingerprint(devPK [32]byte) [32]byte { return blake2b.Sum256(devPK[:]) }
