package identity

import (
	"bytes"
	"testing"

	"golang.org/x/crypto/argon2"
)

// referencePHC was made by the argon2 command of the reference implementation:
// echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1 -l 32 -e.
const referencePHC = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"

func TestPHCOfTheReferenceImplementation(t *testing.T) {
	t.Parallel()
	p, err := parsePHC(referencePHC)
	if err != nil {
		t.Fatal(err)
	}
	if key := argon2.IDKey([]byte("password"), p.salt, p.time, p.memory, p.threads, uint32(len(p.key))); !bytes.Equal(key, p.key) {
		t.Error("the password of the reference hash does not match")
	}
	if p.String() != referencePHC {
		t.Errorf("String() = %s", p)
	}
}

func TestPHCRefuses(t *testing.T) {
	t.Parallel()
	const salt, key = "c29tZXNhbHQ", "CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	for _, s := range []string{
		"",
		"$",
		"$argon2id$v=19$m=65536,t=2,p=1$" + salt,
		"$argon2i$v=19$m=65536,t=2,p=1$" + salt + "$" + key,
		"$argon2id$v=16$m=65536,t=2,p=1$" + salt + "$" + key,
		"$argon2id$v=19$t=2,m=65536,p=1$" + salt + "$" + key,
		"$argon2id$v=19$m=65536,t=2$" + salt + "$" + key,
		"$argon2id$v=19$m=4294967295,t=2,p=1$" + salt + "$" + key, // 4 TiB
		"$argon2id$v=19$m=65536,t=4294967295,p=1$" + salt + "$" + key,
		"$argon2id$v=19$m=65536,t=0,p=1$" + salt + "$" + key, // argon2 panics
		"$argon2id$v=19$m=65536,t=2,p=0$" + salt + "$" + key, // argon2 panics
		"$argon2id$v=19$m=65536,t=2,p=257$" + salt + "$" + key,
		"$argon2id$v=19$m=+65536,t=2,p=1$" + salt + "$" + key,
		"$argon2id$v=19$m=65536,t=02,p=1$" + salt + "$" + key,
		"$argon2id$v=19$m=65536,t=2,p=1$$" + key,
		"$argon2id$v=19$m=65536,t=2,p=1$" + salt + "$",
		"$argon2id$v=19$m=65536,t=2,p=1$" + salt + "$" + key + "\n",
		"$argon2id$v=19$m=65536,t=2,p=1$" + salt + "$" + key + "=",
		"$argon2id$v=19$m=65536,t=2,p=1$" + salt + "$" + key + "$",
		"$2y$10$abcdefghijklmnopqrstuv",
	} {
		if p, err := parsePHC(s); err == nil {
			t.Errorf("parsePHC(%q) = %v", s, p)
		}
	}
}

func FuzzPHC(f *testing.F) {
	f.Add(referencePHC)
	f.Add(newPHC().String())
	f.Add(dummyPHC().String())
	f.Add("$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePHC(s)
		if err != nil {
			return
		}
		if p.memory > 1<<20 || p.time > 64 || p.threads == 0 || p.time == 0 || len(p.salt) < 8 || len(p.key) < 16 {
			t.Errorf("settings out of bounds: %v", p)
		}
		if p.String() != s {
			t.Errorf("%q comes back as %q", s, p)
		}
	})
}
