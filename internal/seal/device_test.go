package seal

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// The vector of the wire contract for device custody, word for word.
const (
	vectorDeviceSK    = "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
	vectorDevicePK    = "B6N8vBQgk8i3VdwbEOhstCY3StFqqFPtC9/AsrhtHHw="
	vectorFingerprint = "+JXg9p9JRv5nK/9+u0d/McJ38fgZdGEnbrkNt3SHhHY="
	vectorDataKey     = "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f"
	vectorEphemeralSK = "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f"
	vectorBox         = "Z13VdO13iTELPS52gfN5C0ZsdzsVIf7PNld5WDcepS9caiZPczPlBSzsgk/a0FqMfV+OgD5W7GlrSQTF/LPaS/NwyhTZlDKNyts42G4jatM="
	vectorNonce       = "oKGio6Slpqeoqaqr"
	vectorTag         = "LvseK+WJEb7JD+4KzAkO5Q=="
	vectorCiphertext  = "5w6BPePrrD5/aGt4wXIN9O4R/e1qJ0sQ4d3pnoTyFfpblnZj0UI3tf1Mv4ZH9jzV/1IYRsrbMTT/VrrNWPT+vKq3lSC/suLbNjtiDYH871h/baIlMEE4LMR9zYf2g6veBn9nwhHrxXDRV+TtoANChB2Syeq+a6NN9Y7+cCdNPqZnqQlrhYJmpyzu"
	vectorDER         = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgERITFBUWFxgZGhscHR4fICEiIyQlJicoKSorLC0uLzChRANCAARMYzbjuLPedxthOhx6FzSDTNacGk9f/sskDGO8DdsVdPaJbF0UykTgA3eRwjADMyWacbkB5SWFddEH5bisSLQk"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	out, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func unb64(t testing.TB, text string) []byte {
	t.Helper()
	out, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWireVector holds both directions to the vector: what libsodium made opens
// here, and with the vector's ephemeral key and nonce we make the same bytes.
func TestWireVector(t *testing.T) {
	t.Parallel()
	devPK, err := ParseDeviceKey(vectorDevicePK)
	if err != nil {
		t.Fatal(err)
	}
	devSK := [32]byte(unhex(t, vectorDeviceSK))
	secret, err := ecdh.X25519().NewPrivateKey(devSK[:])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(secret.PublicKey().Bytes(), devPK[:]) {
		t.Error("the device's secret key does not give its public key")
	}
	if digest := Fingerprint(devPK); !bytes.Equal(digest[:], unb64(t, vectorFingerprint)) {
		t.Errorf("Fingerprint = %x", digest)
	}

	dataKey, err := OpenSealedBox(devPK, devSK, unb64(t, vectorBox))
	if err != nil || !bytes.Equal(dataKey, unhex(t, vectorDataKey)) {
		t.Fatalf("OpenSealedBox = %x, %v", dataKey, err)
	}
	der, err := DecryptPrivateKey(dataKey, EncryptedKey{
		Ciphertext: unb64(t, vectorCiphertext), Nonce: unb64(t, vectorNonce), Tag: unb64(t, vectorTag),
	})
	if err != nil || !bytes.Equal(der, unb64(t, vectorDER)) {
		t.Fatalf("DecryptPrivateKey = %x, %v", der, err)
	}

	sealed, err := wrapWith(devPK, dataKey, bytes.NewReader(unhex(t, vectorEphemeralSK)))
	if err != nil || !bytes.Equal(sealed, unb64(t, vectorBox)) {
		t.Errorf("wrapWith = %x, %v", sealed, err)
	}
	key, err := encryptWithNonce(dataKey, der, unb64(t, vectorNonce))
	if err != nil || !bytes.Equal(key.Ciphertext, unb64(t, vectorCiphertext)) || !bytes.Equal(key.Tag, unb64(t, vectorTag)) {
		t.Errorf("encryptWithNonce = %+v, %v", key, err)
	}
}

func newDevice(t *testing.T) (devPK, devSK [32]byte) {
	t.Helper()
	secret, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return [32]byte(secret.PublicKey().Bytes()), [32]byte(secret.Bytes())
}

func TestDeviceRoundTrip(t *testing.T) {
	t.Parallel()
	devPK, devSK := newDevice(t)
	dataKey, der := NewDataKey(), []byte("a private key")
	sealed, err := WrapForDevice(devPK, dataKey)
	if err != nil || len(sealed) != SealedBoxSize {
		t.Fatalf("WrapForDevice: %d bytes, %v", len(sealed), err)
	}
	key, err := EncryptPrivateKey(dataKey, der)
	if err != nil || len(key.Ciphertext) != len(der) || len(key.Nonce) != 12 || len(key.Tag) != 16 {
		t.Fatalf("EncryptPrivateKey = %+v, %v", key, err)
	}
	opened, err := OpenSealedBox(devPK, devSK, sealed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecryptPrivateKey(opened, key); err != nil || !bytes.Equal(got, der) {
		t.Fatalf("DecryptPrivateKey = %q, %v", got, err)
	}

	otherPK, otherSK := newDevice(t)
	if _, err := OpenSealedBox(otherPK, otherSK, sealed); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another device opens the box: %v", err)
	}
	if _, err := DecryptPrivateKey(NewDataKey(), key); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another data key opens the private key: %v", err)
	}
	for name, bad := range map[string]EncryptedKey{
		"short nonce": {Ciphertext: key.Ciphertext, Nonce: key.Nonce[:11], Tag: key.Tag},
		"short tag":   {Ciphertext: key.Ciphertext, Nonce: key.Nonce, Tag: key.Tag[:12]},
		"empty":       {},
	} {
		if _, err := DecryptPrivateKey(dataKey, bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrongKeyLength(t *testing.T) {
	t.Parallel()
	devPK, _ := newDevice(t)
	for _, size := range []int{0, 16, 31, 33} {
		if _, err := WrapForDevice(devPK, make([]byte, size)); err == nil {
			t.Errorf("WrapForDevice takes a data key of %d bytes", size)
		}
		if _, err := EncryptPrivateKey(make([]byte, size), nil); err == nil {
			t.Errorf("EncryptPrivateKey takes a data key of %d bytes", size)
		}
	}
}

func TestParseDeviceKeyRefuses(t *testing.T) {
	t.Parallel()
	smallOrder := make([]byte, 32)
	smallOrder[0] = 1
	for name, text := range map[string]string{
		"empty":         "",
		"31 bytes":      base64.StdEncoding.EncodeToString(make([]byte, 31)),
		"33 bytes":      base64.StdEncoding.EncodeToString(make([]byte, 33)),
		"unpadded":      strings.TrimRight(vectorDevicePK, "="),
		"url alphabet":  strings.ReplaceAll(vectorDevicePK, "/", "_"),
		"line break":    vectorDevicePK[:20] + "\n" + vectorDevicePK[20:],
		"stray bits":    vectorDevicePK[:42] + "x=",
		"zero":          base64.StdEncoding.EncodeToString(make([]byte, 32)),
		"order one":     base64.StdEncoding.EncodeToString(smallOrder),
		"not base64":    strings.Repeat("?", 44),
		"hexadecimal":   vectorDeviceSK,
		"trailing text": vectorDevicePK + "AA==",
	} {
		if _, err := ParseDeviceKey(text); !errors.Is(err, ErrDeviceKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := WrapForDevice([32]byte(smallOrder), NewDataKey()); !errors.Is(err, ErrDeviceKey) {
		t.Errorf("WrapForDevice to a point of small order: %v", err)
	}
}

func FuzzOpenSealedBox(f *testing.F) {
	devPK, devSK := [32]byte(unb64(f, vectorDevicePK)), [32]byte(unhex(f, vectorDeviceSK))
	f.Add(unb64(f, vectorBox))
	f.Add([]byte{})
	f.Add(make([]byte, SealedBoxSize))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		dataKey, err := OpenSealedBox(devPK, devSK, sealed)
		if err == nil && !bytes.Equal(sealed, unb64(t, vectorBox)) {
			t.Fatalf("opened a box nobody sealed: %x", dataKey)
		}
	})
}
