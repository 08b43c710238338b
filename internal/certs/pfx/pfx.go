package pfx

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // localKeyID is a label, SHA-1 of the leaf by custom
	"crypto/sha256"
	"encoding/asn1"
	"errors"
	"fmt"
)

// Store is what a PKCS#12 file holds.
type Store struct {
	FriendlyName string   // name of key and leaf, shown by key stores as the alias
	Key          []byte   // private key as PKCS#8 DER
	Certificates [][]byte // DER, leaf first
	Password     string   // characters of the basic multilingual plane
}

var (
	oidData          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidEncryptedData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 6}
	oidShroudedKey   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 2}
	oidCertBag       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3}
	oidX509          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 22, 1}
	oidFriendlyName  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 20}
	oidLocalKeyID    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 21}
	oidSHA256        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
)

const version3 = 3

type (
	pfx struct {
		Version  int
		AuthSafe contentInfo
		MacData  macData
	}
	contentInfo struct {
		ContentType asn1.ObjectIdentifier
		Content     asn1.RawValue
	}
	macData struct {
		Mac        digestInfo
		Salt       []byte
		Iterations int
	}
	digestInfo struct {
		Algorithm algorithm
		Digest    []byte
	}
	safeBag struct {
		ID         asn1.ObjectIdentifier
		Value      asn1.RawValue
		Attributes []attribute `asn1:"set,omitempty"`
	}
	attribute struct {
		ID     asn1.ObjectIdentifier
		Values []asn1.RawValue `asn1:"set"`
	}
	certBag struct {
		ID    asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	encryptedData struct {
		Version int
		Content encryptedContent
	}
	encryptedContent struct {
		ContentType asn1.ObjectIdentifier
		Algorithm   algorithm
		Content     []byte `asn1:"tag:0"`
	}
	encryptedKey struct {
		Algorithm algorithm
		Content   []byte
	}
)

// Encode writes the store. It fails without key or leaf, and on a password or
// name outside the basic multilingual plane.
func Encode(s Store) ([]byte, error) {
	if len(s.Key) == 0 || len(s.Certificates) == 0 {
		return nil, errors.New("encode pkcs12: a private key and a certificate are needed")
	}
	content, err := s.authenticatedSafe()
	if err != nil {
		return nil, fmt.Errorf("encode pkcs12: %w", err)
	}
	password, err := bmpString(s.Password)
	if err != nil {
		return nil, fmt.Errorf("encode pkcs12: password: %w", err)
	}
	password = append(password, 0, 0)
	defer clear(password)
	salt := randomBytes(saltSize)
	macKey := deriveMACKey(password, salt, iterations)
	defer clear(macKey)
	mac := hmac.New(sha256.New, macKey)
	mac.Write(content)

	data, err := asn1.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode pkcs12: %w", err)
	}
	out, err := asn1.Marshal(pfx{
		Version:  version3,
		AuthSafe: contentInfo{ContentType: oidData, Content: explicit(data)},
		MacData: macData{
			Mac:        digestInfo{Algorithm: algorithm{Algorithm: oidSHA256, Parameters: asn1.NullRawValue}, Digest: mac.Sum(nil)},
			Salt:       salt,
			Iterations: iterations,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encode pkcs12: %w", err)
	}
	return out, nil
}

// authenticatedSafe is the sequence of the encrypted certificates and the
// encrypted key.
func (s Store) authenticatedSafe() ([]byte, error) {
	certificates, err := s.certificates()
	if err != nil {
		return nil, err
	}
	key, err := s.key()
	if err != nil {
		return nil, err
	}
	return asn1.Marshal([]contentInfo{certificates, key})
}

func (s Store) certificates() (contentInfo, error) {
	bags := make([]safeBag, 0, len(s.Certificates))
	for i, der := range s.Certificates {
		octets, err := asn1.Marshal(der)
		if err != nil {
			return contentInfo{}, err
		}
		value, err := asn1.Marshal(certBag{ID: oidX509, Value: explicit(octets)})
		if err != nil {
			return contentInfo{}, err
		}
		bag := safeBag{ID: oidCertBag, Value: explicit(value)}
		if i == 0 {
			if bag.Attributes, err = s.attributes(); err != nil {
				return contentInfo{}, err
			}
		}
		bags = append(bags, bag)
	}
	plain, err := asn1.Marshal(bags)
	if err != nil {
		return contentInfo{}, err
	}
	algorithm, ciphertext, err := encrypt(s.Password, plain)
	if err != nil {
		return contentInfo{}, err
	}
	data, err := asn1.Marshal(encryptedData{
		Content: encryptedContent{ContentType: oidData, Algorithm: algorithm, Content: ciphertext},
	})
	return contentInfo{ContentType: oidEncryptedData, Content: explicit(data)}, err
}

func (s Store) key() (contentInfo, error) {
	algorithm, ciphertext, err := encrypt(s.Password, s.Key)
	if err != nil {
		return contentInfo{}, err
	}
	value, err := asn1.Marshal(encryptedKey{Algorithm: algorithm, Content: ciphertext})
	if err != nil {
		return contentInfo{}, err
	}
	attributes, err := s.attributes()
	if err != nil {
		return contentInfo{}, err
	}
	bags, err := asn1.Marshal([]safeBag{{ID: oidShroudedKey, Value: explicit(value), Attributes: attributes}})
	if err != nil {
		return contentInfo{}, err
	}
	data, err := asn1.Marshal(bags)
	return contentInfo{ContentType: oidData, Content: explicit(data)}, err
}

// attributes tie key and leaf together and name them.
func (s Store) attributes() ([]attribute, error) {
	name, err := bmpString(s.FriendlyName)
	if err != nil {
		return nil, fmt.Errorf("friendly name: %w", err)
	}
	sum := sha1.Sum(s.Certificates[0]) //nolint:gosec // see the import
	id, err := asn1.Marshal(sum[:])
	if err != nil {
		return nil, err
	}
	return []attribute{
		{ID: oidFriendlyName, Values: []asn1.RawValue{{Tag: asn1.TagBMPString, Bytes: name}}},
		{ID: oidLocalKeyID, Values: []asn1.RawValue{{FullBytes: id}}},
	}, nil
}

// explicit is the [0] EXPLICIT around an encoded value.
func explicit(encoded []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: encoded}
}

func randomBytes(size int) []byte {
	out := make([]byte, size)
	rand.Read(out) //nolint:errcheck // crypto/rand.Read never returns an error, it ends the program
	return out
}
