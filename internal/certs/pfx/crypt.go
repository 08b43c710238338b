package pfx

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"unicode/utf16"
)

const (
	// iterations is what OpenSSL uses by default. The passwords are random with 240
	// bits, so stretching them further protects nothing.
	iterations = 2048
	saltSize   = 16
	keySize    = 32
)

var (
	oidPBES2      = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	oidHMACSHA256 = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}
	oidAES256CBC  = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}
)

type (
	algorithm struct {
		Algorithm  asn1.ObjectIdentifier
		Parameters asn1.RawValue
	}
	pbes2Parameters struct {
		Derivation algorithm
		Scheme     algorithm
	}
	pbkdf2Parameters struct {
		Salt       []byte
		Iterations int
		KeyLength  int
		PRF        algorithm
	}
)

// encrypt is PBES2 (RFC 8018 section 6.2) with a fresh salt and vector.
func encrypt(password string, plain []byte) (algorithm, []byte, error) {
	salt, vector := randomBytes(saltSize), randomBytes(aes.BlockSize)
	key, err := pbkdf2.Key(sha256.New, password, salt, iterations, keySize)
	if err != nil {
		return algorithm{}, nil, err
	}
	defer clear(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return algorithm{}, nil, err
	}
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	padded := append(bytes.Clone(plain), bytes.Repeat([]byte{byte(padding)}, padding)...)
	cipher.NewCBCEncrypter(block, vector).CryptBlocks(padded, padded)

	derivation, err := asn1.Marshal(pbkdf2Parameters{
		Salt: salt, Iterations: iterations, KeyLength: keySize,
		PRF: algorithm{Algorithm: oidHMACSHA256, Parameters: asn1.NullRawValue},
	})
	if err != nil {
		return algorithm{}, nil, err
	}
	octets, err := asn1.Marshal(vector)
	if err != nil {
		return algorithm{}, nil, err
	}
	parameters, err := asn1.Marshal(pbes2Parameters{
		Derivation: algorithm{Algorithm: oidPBKDF2, Parameters: asn1.RawValue{FullBytes: derivation}},
		Scheme:     algorithm{Algorithm: oidAES256CBC, Parameters: asn1.RawValue{FullBytes: octets}},
	})
	return algorithm{Algorithm: oidPBES2, Parameters: asn1.RawValue{FullBytes: parameters}}, padded, err
}

// deriveMACKey is RFC 7292 appendix B.2 with SHA-256 for the one block that an
// HMAC-SHA-256 key takes (ID 3). password is a BMPString with its terminator.
func deriveMACKey(password, salt []byte, iterations int) []byte {
	const id, blockSize = 3, sha256.BlockSize
	input := bytes.Repeat([]byte{id}, blockSize)
	input = append(input, fill(salt, blockSize)...)
	input = append(input, fill(password, blockSize)...)
	sum := sha256.Sum256(input)
	for range iterations - 1 {
		sum = sha256.Sum256(sum[:])
	}
	clear(input)
	return sum[:]
}

// fill repeats text up to the next multiple of size.
func fill(text []byte, size int) []byte {
	if len(text) == 0 {
		return nil
	}
	total := (len(text) + size - 1) / size * size
	return bytes.Repeat(text, total/len(text)+1)[:total]
}

// bmpString is UTF-16, big endian, of the basic multilingual plane only.
func bmpString(text string) ([]byte, error) {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		if utf16.IsSurrogate(rune(unit)) {
			return nil, errors.New("holds a character outside the basic multilingual plane")
		}
		out = binary.BigEndian.AppendUint16(out, unit)
	}
	return out, nil
}
