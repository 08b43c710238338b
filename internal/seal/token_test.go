package seal

import (
	"encoding/hex"
	"regexp"
	"testing"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^ak_[A-Za-z0-9_-]{43}$`)
	seen := map[string]bool{}
	for range 100 {
		token := NewToken("ak_", 32)
		if !form.MatchString(token) || seen[token] {
			t.Fatalf("token %q", token)
		}
		seen[token] = true
		if !TokenMatches(token, HashToken(token)) {
			t.Fatal("a token does not match its hash")
		}
		if TokenMatches(token+"x", HashToken(token)) || TokenMatches(token, nil) || TokenMatches("", HashToken(token)) {
			t.Fatal("a wrong token matches")
		}
	}
	// FIPS 180-4, "abc".
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := hex.EncodeToString(HashToken("abc")); got != want {
		t.Errorf("HashToken = %s", got)
	}
}
