package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"certharbor.dev/certharbor/internal/durable"
)

func TestWriteFileReplacesWholeAndSetsMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	for _, content := range []string{"first, longer", "second"} {
		if err := durable.WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Fatalf("content %q, %v", got, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", info.Mode())
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("folder holds %v, %v", left, err)
	}
}

// A link planted under the temporary name must not be written through.
func TestWriteFileDoesNotFollowPlantedLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "f.new")); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(filepath.Join(dir, "f"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(victim); string(got) != "untouched" {
		t.Errorf("victim now holds %q", got)
	}
}

func TestWriteFileLeavesOldFileOnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The target is a folder that is not empty: the rename must fail.
	target := filepath.Join(dir, "f")
	if err := os.MkdirAll(filepath.Join(target, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(target, []byte("x"), 0o600); err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Stat(target + ".new"); !os.IsNotExist(err) {
		t.Errorf("temporary file left behind: %v", err)
	}
}
