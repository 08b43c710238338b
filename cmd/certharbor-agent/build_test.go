package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const maxSize = 12 << 20

// The agent runs on small devices: one static file without the server in it.
func TestBinaryIsSmallAndStatic(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "certharbor-agent")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= maxSize {
		t.Errorf("%d bytes, at most %d are allowed", info.Size(), maxSize)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	if libs, err := f.ImportedLibraries(); err == nil && len(libs) > 0 {
		t.Errorf("needs %v", libs)
	}
}

func TestAgentImportsNothingOfTheServer(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		own, isOwn := strings.CutPrefix(name, "certharbor.dev/certharbor/")
		if isOwn && !strings.HasPrefix(own, "internal/agent") && own != "cmd/certharbor-agent" {
			t.Errorf("imports %s", name)
		}
		// Standard library paths have no dot in their first element.
		first, _, _ := strings.Cut(name, "/")
		known := isOwn || !strings.Contains(first, ".") || strings.HasPrefix(name, "golang.org/x/") ||
			strings.HasPrefix(name, "software.sslmate.com/src/go-pkcs12") || strings.HasPrefix(name, "github.com/spf13/")
		if !known {
			t.Errorf("imports %s", name)
		}
	}
	if strings.Contains(string(out), "internal/agent/wiretest") {
		t.Error("imports the test server")
	}
}
