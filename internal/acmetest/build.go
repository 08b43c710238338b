package acmetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

// binary returns the path of a built tools/acmeserver. It is built at most once per process and,
// through a locked folder in the user's cache, once per machine and state of its sources.
var binary = sync.OnceValues(buildBinary)

func buildBinary() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	tools := filepath.Join(root, "tools")
	key, err := sourceKey(tools)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	folder := filepath.Join(cache, fmt.Sprintf("certharbor-acmetest-%d", os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("make %s: %w", folder, err)
	}

	unlock, err := lock(filepath.Join(folder, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	target := filepath.Join(folder, "acmeserver-"+key)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	// Built beside and renamed, so that a build that is killed leaves no half binary.
	building := target + ".building"
	build := exec.Command("go", "build", "-C", tools, "-buildvcs=false", "-o", building, "./acmeserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tools/acmeserver: %w\n%s", err, out)
	}
	if err := os.Rename(building, target); err != nil {
		return "", fmt.Errorf("install acmeserver: %w", err)
	}
	return target, nil
}

// moduleRoot walks up from the working directory, which go test sets to the package's folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "tools", "acmeserver", "main.go")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("tools/acmeserver not found in any folder above the working directory")
		}
		dir = parent
	}
}

// sourceKey is a digest of what the binary depends on: its sources, the module's versions, Go's.
func sourceKey(tools string) (string, error) {
	files, err := filepath.Glob(filepath.Join(tools, "acmeserver", "*.go"))
	if err != nil {
		return "", fmt.Errorf("list sources: %w", err)
	}
	files = append(files, filepath.Join(tools, "go.mod"), filepath.Join(tools, "go.sum"))
	digest := sha256.New()
	_, _ = io.WriteString(digest, runtime.Version())
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read source: %w", err)
		}
		sum := sha256.Sum256(bytes.TrimSpace(content))
		digest.Write(sum[:])
	}
	return hex.EncodeToString(digest.Sum(nil)[:8]), nil
}

// lock waits for an exclusive lock that the kernel drops when this process ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
