package material_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/agent/material"
)

// The test vector of wire.md 7.4.
const (
	vectorSecret = "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
	vectorPublic = "B6N8vBQgk8i3VdwbEOhstCY3StFqqFPtC9/AsrhtHHw="
	vectorDER    = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgERITFBUWFxgZGhscHR4fICEiIyQlJicoKSorLC0uLzChRANCAARMYzbjuLPedxthOhx6FzSDTNacGk9f/sskDGO8DdsVdPaJbF0UykTgA3eRwjADMyWacbkB5SWFddEH5bisSLQk"
)

func vector() material.Sealed {
	return material.Sealed{
		EncScheme:       "aes256gcm",
		WrapAlg:         "x25519",
		DeviceKeyFPB64:  "+JXg9p9JRv5nK/9+u0d/McJ38fgZdGEnbrkNt3SHhHY=",
		EncDataKeyB64:   "Z13VdO13iTELPS52gfN5C0ZsdzsVIf7PNld5WDcepS9caiZPczPlBSzsgk/a0FqMfV+OgD5W7GlrSQTF/LPaS/NwyhTZlDKNyts42G4jatM=",
		PrivKeyNonceB64: "oKGio6Slpqeoqaqr",
		PrivKeyTagB64:   "LvseK+WJEb7JD+4KzAkO5Q==",
		EncPrivKeyB64:   "5w6BPePrrD5/aGt4wXIN9O4R/e1qJ0sQ4d3pnoTyFfpblnZj0UI3tf1Mv4ZH9jzV/1IYRsrbMTT/VrrNWPT+vKq3lSC/suLbNjtiDYH871h/baIlMEE4LMR9zYf2g6veBn9nwhHrxXDRV+TtoANChB2Syeq+a6NN9Y7+cCdNPqZnqQlrhYJmpyzu",
	}
}

func vectorKey(t *testing.T) material.DeviceKey {
	t.Helper()
	secret, err := hex.DecodeString(vectorSecret)
	if err != nil {
		t.Fatal(err)
	}
	key, err := material.ParseDeviceKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestVector(t *testing.T) {
	t.Parallel()
	key := vectorKey(t)
	if got := key.PublicB64(); got != vectorPublic {
		t.Errorf("public key %s", got)
	}
	got, err := material.OpenKey(key, vector())
	if err != nil {
		t.Fatal(err)
	}
	if base64.StdEncoding.EncodeToString(got) != vectorDER {
		t.Errorf("opened %x", got)
	}
	if _, err := material.ParseKey(got); err != nil {
		t.Error(err)
	}
}

func TestOpenKeyRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*material.Sealed)
		want   string
	}{
		"scheme":       {func(s *material.Sealed) { s.EncScheme = "rot13" }, "enc_scheme"},
		"wrap":         {func(s *material.Sealed) { s.WrapAlg = "rsa" }, "wrap_alg"},
		"short box":    {func(s *material.Sealed) { s.EncDataKeyB64 = "AAAA" }, "enc_data_key_b64"},
		"altered box":  {func(s *material.Sealed) { s.EncDataKeyB64 = "A" + s.EncDataKeyB64[1:] }, "does not open"},
		"nonce":        {func(s *material.Sealed) { s.PrivKeyNonceB64 = "!" }, "privkey_nonce_b64"},
		"altered tag":  {func(s *material.Sealed) { s.PrivKeyTagB64 = "A" + s.PrivKeyTagB64[1:] }, "altered"},
		"altered text": {func(s *material.Sealed) { s.EncPrivKeyB64 = "A" + s.EncPrivKeyB64[1:] }, "altered"},
		"empty text":   {func(s *material.Sealed) { s.EncPrivKeyB64 = "" }, "enc_privkey_b64"},
		"empty plain":  {func(s *material.Sealed) { *s = material.Sealed{EncScheme: "plaintext"} }, "private_key_der_b64"},
	}
	for name, tt := range tests {
		s := vector()
		tt.change(&s)
		if _, err := material.OpenKey(vectorKey(t), s); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, err := material.NewDeviceKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := material.OpenKey(other, vector()); !errors.Is(err, material.ErrForeignKey) {
		t.Errorf("foreign key: %v", err)
	}
}

func FuzzOpenAndParse(f *testing.F) {
	f.Add("aes256gcm", "x25519", vector().EncDataKeyB64, vector().EncPrivKeyB64, vector().PrivKeyNonceB64, vector().PrivKeyTagB64, vectorDER)
	f.Add("plaintext", "", "", "", "", "", vectorDER)
	f.Add("plaintext", "", "", "", "", "", "LS0tLS1CRUdJTg==")
	f.Fuzz(func(t *testing.T, scheme, wrap, box, text, nonce, tag, der string) {
		s := vector()
		s.EncScheme, s.WrapAlg, s.EncDataKeyB64, s.EncPrivKeyB64 = scheme, wrap, box, text
		s.PrivKeyNonceB64, s.PrivKeyTagB64, s.PrivateKeyDERB64 = nonce, tag, der
		key, err := material.OpenKey(vectorKey(t), s)
		if err != nil {
			return
		}
		if signer, err := material.ParseKey(key); err == nil && signer == nil {
			t.Error("no key and no error")
		}
	})
}
