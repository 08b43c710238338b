package identity

import (
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
)

func TestNormalizeEmail(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"ada@example.org":                   "ada@example.org",
		" Ada@Example.ORG\t":                "ada@example.org",
		"a+b@localhost":                     "a+b@localhost",
		"ÄDA@example.org":                   "äda@example.org",
		"":                                  "",
		"ada":                               "",
		"ada@":                              "",
		"@example.org":                      "",
		"Ada <ada@x.org>":                   "",
		"<ada@x.org>":                       "",
		"ada@x.org, b@x.org":                "",
		"ada@x.org\r\nBcc: b@":              "",
		"ada@x\x00.org":                     "",
		strings.Repeat("a", 250) + "@x.org": "",
	} {
		got, err := NormalizeEmail(in)
		if got != want || (want == "") != fault.Is(err, fault.CodeInvalid) {
			t.Errorf("NormalizeEmail(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestCheckNewPassword(t *testing.T) {
	t.Parallel()
	for password, good := range map[string]bool{
		adaPass:                            true,
		"Aa1-56789012":                     true,
		"Äpfel-und-1 Birne":                true,
		"Aa1 56789012":                     true,
		"Aa1-5678901":                      false, // 11 characters
		"Ää1-567890é":                      false, // 11 characters in 14 bytes
		"aa1-56789012":                     false,
		"AA1-56789012":                     false,
		"Aaa-bbbbbbbb":                     false,
		"Aa1056789012":                     false,
		"":                                 false,
		"Aa1-" + strings.Repeat("x", 1020): true,
		"Aa1-" + strings.Repeat("x", 1021): false,
	} {
		if err := CheckNewPassword("password", password); (err == nil) != good {
			t.Errorf("CheckNewPassword(%q): %v", password, err)
		} else if err != nil && strings.Contains(err.Error(), password) && password != "" {
			t.Errorf("the refusal quotes the password: %v", err)
		}
	}
}

func TestCheckUserName(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"ada": true, "A.d_a-9": true, strings.Repeat("a", 64): true,
		"ad": false, strings.Repeat("a", 65): false, "ada lovelace": false, "adä": false, "ada/..": false, "ada\n": false,
	} {
		if err := CheckUserName(name); (err == nil) != good {
			t.Errorf("CheckUserName(%q): %v", name, err)
		}
	}
}
