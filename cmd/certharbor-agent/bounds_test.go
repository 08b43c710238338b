package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// A secret that is read from a file or standard input is short: what does not
// end is not read on.
func TestSecretsOnInputAreBounded(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	for name, args := range map[string][]string{
		"password": {"once", "--pfx-password-file", "/dev/zero"},
		"API key":  {"enroll", "--server", "https://certs.example.com", "--api-key-stdin"},
	} {
		endless := io.MultiReader(bytes.NewReader(make([]byte, 8<<10)), failing{t})
		err := run(t.Context(), append(args, "--state", state), func(string) string { return "" }, endless, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "4096 bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{ t *testing.T }

func (f failing) Read([]byte) (int, error) {
	f.t.Error("read on")
	return 0, io.EOF
}
