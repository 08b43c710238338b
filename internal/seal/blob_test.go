package seal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

var home = Place{Table: "acme_accounts", Row: 7, Column: "private_key"}

func newRing(t testing.TB, keys ...[]byte) *Keyring {
	t.Helper()
	if len(keys) == 0 {
		keys = [][]byte{NewDataKey()}
	}
	ring, err := New(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func mustSeal(t testing.TB, ring *Keyring, plaintext string) []byte {
	t.Helper()
	blob, err := ring.Seal(home, []byte(plaintext))
	if err != nil {
		t.Fatal(err)
	}
	return blob
}

func TestSealOpen(t *testing.T) {
	t.Parallel()
	ring := newRing(t)
	for _, plaintext := range []string{"", "x", "canary-secret", strings.Repeat("long ", 10_000)} {
		blob := mustSeal(t, ring, plaintext)
		if len(blob) != len(plaintext)+Overhead {
			t.Errorf("a blob of %d bytes for %d", len(blob), len(plaintext))
		}
		if len(plaintext) > 1 && bytes.Contains(blob, []byte(plaintext)) {
			t.Error("the blob holds its plaintext")
		}
		got, err := ring.Open(home, blob)
		if err != nil || string(got) != plaintext || got == nil {
			t.Errorf("Open = %q, %v", got, err)
		}
	}
	if bytes.Equal(mustSeal(t, ring, "same"), mustSeal(t, ring, "same")) {
		t.Error("sealing twice gives the same blob")
	}
}

func TestOpenElsewhere(t *testing.T) {
	t.Parallel()
	ring := newRing(t)
	blob := mustSeal(t, ring, "secret")
	for _, elsewhere := range []Place{
		{Table: "acme_account", Row: 7, Column: "private_key"},
		{Table: "acme_accounts", Row: 8, Column: "private_key"},
		{Table: "acme_accounts", Row: -7, Column: "private_key"},
		{Table: "acme_accounts", Row: 7, Column: "eab_hmac_key"},
		{Table: "acme_accountsp", Row: 7, Column: "rivate_key"},
		{},
	} {
		if _, err := ring.Open(elsewhere, blob); !errors.Is(err, ErrWrongPlace) {
			t.Errorf("%+v: Open = %v", elsewhere, err)
		}
		if _, err := ring.Rewrap(elsewhere, blob); !errors.Is(err, ErrWrongPlace) {
			t.Errorf("%+v: Rewrap = %v", elsewhere, err)
		}
		// The digest in the header is only a hint: forging it does not help.
		forged := bytes.Clone(blob)
		digest := elsewhere.digest()
		copy(forged[1+keyIDSize:], digest[:])
		if _, err := ring.Open(elsewhere, forged); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%+v: Open of a forged header = %v", elsewhere, err)
		}
	}
}

// TestPlacesDiffer: texts that run together must not give one associated data.
func TestPlacesDiffer(t *testing.T) {
	t.Parallel()
	a := Place{Table: "ab", Row: 0, Column: "c"}
	b := Place{Table: "a", Row: 0, Column: "bc"}
	c := Place{Table: "ab\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", Column: "c"}
	if bytes.Equal(a.encode(), b.encode()) || bytes.Equal(a.encode(), c.encode()) {
		t.Error("two places have one encoding")
	}
}

// TestEveryBitCounts alters every bit of a blob: none may open.
func TestEveryBitCounts(t *testing.T) {
	t.Parallel()
	ring := newRing(t)
	blob := mustSeal(t, ring, "secret")
	for bit := range len(blob) * 8 {
		altered := bytes.Clone(blob)
		altered[bit/8] ^= 1 << (bit % 8)
		_, err := ring.Open(home, altered)
		want := ErrCorrupt
		switch {
		case bit/8 >= 1 && bit/8 < 1+keyIDSize:
			want = ErrUnknownKey
		case bit/8 >= 1+keyIDSize && bit/8 < headerSize:
			want = ErrWrongPlace
		}
		if !errors.Is(err, want) {
			t.Fatalf("bit %d: %v, want %v", bit, err, want)
		}
	}
	for size := range blob {
		if _, err := ring.Open(home, blob[:size]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", size, err)
		}
	}
	if _, err := ring.Open(home, append(bytes.Clone(blob), 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("with a byte more: %v", err)
	}
}

// TestPartsDoNotMix: the secret of one blob with the data key of another.
func TestPartsDoNotMix(t *testing.T) {
	t.Parallel()
	ring := newRing(t)
	a, b := mustSeal(t, ring, "one"), mustSeal(t, ring, "two")
	mixed := append(bytes.Clone(a[:bodyStart]), b[bodyStart:]...)
	if _, err := ring.Open(home, mixed); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Open = %v", err)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	oldKey, freshKey := NewDataKey(), NewDataKey()
	old, both, fresh := newRing(t, oldKey), newRing(t, freshKey, oldKey), newRing(t, freshKey)
	blob := mustSeal(t, old, "secret")

	if _, err := fresh.Open(home, blob); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("without the old key: %v", err)
	}
	if got, err := both.Open(home, blob); err != nil || string(got) != "secret" {
		t.Errorf("with both keys: %q, %v", got, err)
	}
	if !both.NeedsRewrap(blob) || old.NeedsRewrap(blob) || both.NeedsRewrap(nil) {
		t.Error("NeedsRewrap is wrong")
	}
	rewrapped, err := both.Rewrap(home, blob)
	if err != nil {
		t.Fatal(err)
	}
	if both.NeedsRewrap(rewrapped) {
		t.Error("a rewrapped blob needs rewrapping")
	}
	if got, err := fresh.Open(home, rewrapped); err != nil || string(got) != "secret" {
		t.Errorf("rewrapped: %q, %v", got, err)
	}
	if _, err := old.Open(home, rewrapped); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("rewrapped, under the old key alone: %v", err)
	}
	if fresh.ID() != both.ID() || fresh.ID() == old.ID() || len(old.ID()) != 16 {
		t.Error("ID does not name the sealing key")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	key := NewDataKey()
	for name, keys := range map[string][][]byte{
		"none": {}, "short": {key[:31]}, "zero": {make([]byte, KeySize)}, "nil": {nil}, "twice": {key, key},
	} {
		if _, err := New(keys...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestErrorsHoldNoSecret: neither keys nor plaintext reach an error's text.
func TestErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	ring := newRing(t)
	blob := mustSeal(t, ring, "canary-plaintext")
	blob[len(blob)-1] ^= 1
	_, err := ring.Open(home, blob)
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "acme_accounts.private_key") {
		t.Errorf("err = %v", err)
	}
}

// A blob of format version 1, made with a master key of 32 bytes 01.
const versionOneBlob = "012a8e8b001f1f6542c24ca4d046bfcd6158f75af2d7dfb91436d7fa2aec638032a75d2f21da616ee846815e582a9b378caaa6" +
	"0b1f30dbcf44097658704c405c190c4aca064bfa193f517ec51b0ffe9857dd0556ff1d83b5242e1fb38f60975869261d0155f6345a61659379be846d58f0bc609c36eb4c"

// TestFormatStays: blobs of earlier releases open for ever.
func TestFormatStays(t *testing.T) {
	t.Parallel()
	ring := newRing(t, bytes.Repeat([]byte{1}, KeySize))
	if got, err := ring.Open(home, unhex(t, versionOneBlob)); err != nil || string(got) != "secret" {
		t.Errorf("Open = %q, %v", got, err)
	}
}

func FuzzOpen(f *testing.F) {
	ring, good := newRing(f, bytes.Repeat([]byte{1}, KeySize)), unhex(f, versionOneBlob)
	f.Add(good)
	f.Add([]byte{})
	f.Add([]byte{2})
	f.Add(good[:bodyStart])
	f.Add(append([]byte{formatVersion}, make([]byte, Overhead)...))
	f.Fuzz(func(t *testing.T, blob []byte) {
		_, err := ring.Open(home, blob)
		if bytes.Equal(blob, good) {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		known := errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnknownKey) || errors.Is(err, ErrWrongPlace)
		if !known {
			t.Fatalf("Open of foreign bytes = %v", err)
		}
	})
}

func BenchmarkSealOpen(b *testing.B) {
	ring, secret := newRing(b), make([]byte, 256)
	for b.Loop() {
		blob, err := ring.Seal(home, secret)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := ring.Open(home, blob); err != nil {
			b.Fatal(err)
		}
	}
}
