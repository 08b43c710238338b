package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDemo builds everything and runs the demo as make demo does, since the README promises it.
func TestDemo(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	build(t, "../..", bin, "./cmd/certharbor", "./cmd/certharbor-agent")
	build(t, "..", filepath.Join(bin, "demo"), "./acmeserver", "./tlsservice", "./webhookreceiver", "./demo")

	demo := exec.CommandContext(t.Context(), filepath.Join(bin, "demo", "demo"), "-bin", bin, "-limit", "10m")
	demo.Env = append(demo.Environ(), "CI=true")
	out, err := demo.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "all steps passed") {
		t.Fatalf("demo: %v", err)
	}
}

func build(t *testing.T, module, target string, packages ...string) {
	t.Helper()
	args := append([]string{"build", "-C", module, "-buildvcs=false", "-o", target + "/"}, packages...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
