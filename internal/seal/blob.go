package seal

import (
	"crypto/rand"
	"errors"
	"fmt"
)

// Why a blob does not open. Errors of [Keyring.Open] and [Keyring.Rewrap] wrap
// exactly one of them and hold neither key nor plaintext.
var (
	// ErrWrongPlace: the blob was sealed for another table, row or column.
	ErrWrongPlace = errors.New("sealed for another place")
	// ErrUnknownKey: the keyring lacks the master key that wraps this blob.
	ErrUnknownKey = errors.New("sealed under a master key that is not in the keyring")
	// ErrCorrupt: not a blob, of an unknown format version, or altered.
	ErrCorrupt = errors.New("sealed data is corrupt")
)

const (
	formatVersion   = 1
	placeDigestSize = 16
	headerSize      = 1 + keyIDSize + placeDigestSize
	gcmOverhead     = 12 + 16
	wrappedSize     = KeySize + gcmOverhead
	bodyStart       = headerSize + wrappedSize
)

// Overhead is how many bytes a blob is longer than its plaintext.
const Overhead = bodyStart + gcmOverhead

// Seal encrypts plaintext, which may be empty, for one place: AES-256-GCM under
// a fresh data key that the first master key wraps.
func (k *Keyring) Seal(at Place, plaintext []byte) ([]byte, error) {
	dataKey := NewDataKey()
	defer clear(dataKey)
	aead, err := newAEAD(dataKey)
	if err != nil {
		return nil, fmt.Errorf("seal %s.%s: %w", at.Table, at.Column, err)
	}
	blob := make([]byte, 0, len(plaintext)+Overhead)
	blob = k.appendHead(blob, at, dataKey)
	return aead.Seal(blob, nil, plaintext, bodyData(at)), nil
}

// Open decrypts a blob that [Keyring.Seal] made for the same place under any of
// the master keys. Errors wrap [ErrWrongPlace], [ErrUnknownKey] or [ErrCorrupt].
func (k *Keyring) Open(at Place, blob []byte) ([]byte, error) {
	dataKey, err := k.unwrap(at, blob)
	if err != nil {
		return nil, fmt.Errorf("open %s.%s: %w", at.Table, at.Column, err)
	}
	defer clear(dataKey)
	aead, err := newAEAD(dataKey)
	if err != nil {
		return nil, fmt.Errorf("open %s.%s: %w", at.Table, at.Column, err)
	}
	plaintext, err := aead.Open([]byte{}, nil, blob[bodyStart:], bodyData(at))
	if err != nil {
		return nil, fmt.Errorf("open %s.%s: %w", at.Table, at.Column, ErrCorrupt)
	}
	return plaintext, nil
}

// Rewrap gives the blob with its data key wrapped by the first master key; the
// encrypted secret itself stays as it is. Errors are those of [Keyring.Open],
// save that damage to the encrypted secret is not looked for.
func (k *Keyring) Rewrap(at Place, blob []byte) ([]byte, error) {
	dataKey, err := k.unwrap(at, blob)
	if err != nil {
		return nil, fmt.Errorf("rewrap %s.%s: %w", at.Table, at.Column, err)
	}
	defer clear(dataKey)
	out := k.appendHead(make([]byte, 0, len(blob)), at, dataKey)
	return append(out, blob[bodyStart:]...), nil
}

// NeedsRewrap tells whether the blob is wrapped by another master key than the
// one that seals. It is false for what is not a blob.
func (k *Keyring) NeedsRewrap(blob []byte) bool {
	return len(blob) >= Overhead && blob[0] == formatVersion && keyID(blob[1:1+keyIDSize]) != k.first.id
}

func (k *Keyring) appendHead(blob []byte, at Place, dataKey []byte) []byte {
	digest := at.digest()
	blob = append(blob, formatVersion)
	blob = append(blob, k.first.id[:]...)
	blob = append(blob, digest[:]...)
	return k.first.aead.Seal(blob, nil, dataKey, wrapData(blob, at))
}

func (k *Keyring) unwrap(at Place, blob []byte) ([]byte, error) {
	if len(blob) < Overhead {
		return nil, fmt.Errorf("%w: %d bytes are too few", ErrCorrupt, len(blob))
	}
	if blob[0] != formatVersion {
		return nil, fmt.Errorf("%w: format version %d is unknown", ErrCorrupt, blob[0])
	}
	aead, known := k.byID[keyID(blob[1:1+keyIDSize])]
	if !known {
		return nil, fmt.Errorf("%w: id %x", ErrUnknownKey, blob[1:1+keyIDSize])
	}
	if [placeDigestSize]byte(blob[1+keyIDSize:headerSize]) != at.digest() {
		return nil, ErrWrongPlace
	}
	dataKey, err := aead.Open(nil, nil, blob[headerSize:bodyStart], wrapData(blob[:headerSize], at))
	if err != nil {
		return nil, ErrCorrupt
	}
	return dataKey, nil
}

// wrapData is the associated data of the wrapped data key: header and place.
func wrapData(header []byte, at Place) []byte {
	return append(append([]byte("wrap"), header...), at.encode()...)
}

// bodyData is the associated data of the secret. It leaves out the master key's
// id, so that rewrapping need not touch the secret.
func bodyData(at Place) []byte {
	return append([]byte{'b', 'o', 'd', 'y', formatVersion}, at.encode()...)
}

// NewDataKey gives [KeySize] fresh random bytes. Clear them after use.
func NewDataKey() []byte {
	key := make([]byte, KeySize)
	rand.Read(key) //nolint:errcheck // crypto/rand.Read never returns an error, it ends the program
	return key
}
