package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestREADME runs the commands of "Your first certificate" and "Automate it" as they stand in
// README.md. Only what a test cannot have is exchanged: Let's Encrypt by Pebble, port 80 and 8080 by
// free ones, sudo by nothing.
func TestREADME(t *testing.T) {
	t.Parallel()
	commands := strings.Split(strings.ReplaceAll(section(t, "Your first certificate"), "\\\n", ""), "\n")
	if len(commands) > 6 {
		t.Errorf("%d commands, the promise is at most six", len(commands))
	}
	folder := t.TempDir()
	d := &demo{bin: filepath.Join(folder, "bin"), folder: folder, lifetime: time.Hour, children: &children{folder: folder}}
	t.Cleanup(d.children.stop)
	build(t, "../..", d.bin, "./cmd/certharbor")
	build(t, "..", filepath.Join(d.bin, "demo"), "./acmeserver")
	if _, err := d.startACME(t.Context()); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	exchange := strings.NewReplacer(
		"make build\n", "",
		"sudo ", "",
		"--http01-listen :80", "--http01-listen "+d.listen+" --listen "+listen+" --acme-allow-cidrs 127.0.0.0/8",
		"127.0.0.1:8080", listen,
		`"provider":"letsencrypt"`, `"provider":"custom","directory_url":"`+d.acme.DirectoryURL+
			`","ca_bundle_pem":"`+strings.ReplaceAll(d.acme.CABundlePEM, "\n", `\n`)+`"`,
	)

	server := slices.IndexFunc(commands, func(c string) bool { return strings.Contains(c, "serve") })
	issue := slices.IndexFunc(commands, func(c string) bool { return strings.Contains(c, "/issues") })
	for i, command := range commands {
		command = strings.TrimSpace(exchange.Replace(command + "\n"))
		if command == "" {
			continue
		}
		if i == server {
			run := exec.Command("bash", "-c", "exec "+strings.TrimSuffix(command, "&"))
			run.Dir = folder
			if _, err := d.children.start("serve", run); err != nil {
				t.Fatal(err)
			}
			awaitAnswer(t, "http://"+listen+"/health", `"ok"`, nil)
			continue
		}
		run := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
		run.Dir = folder
		out, err := run.CombinedOutput()
		t.Logf("%s\n%s", command, out)
		if err != nil || strings.Contains(string(out), `"error":{`) {
			t.Fatalf("%s: %v", command, err)
		}
		if i == issue { // a person looks at the state before going on
			awaitAnswer(t, "http://"+listen+"/apiv1/me/certificates/1/issues", `"SUCCESS"`, &folder)
		}
	}

	archives, err := filepath.Glob(filepath.Join(folder, "*.zip"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("downloaded %v, %v; want one archive", archives, err)
	}
	holdsKeyAndChain(t, archives[0])

	automate := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", exchange.Replace(section(t, "Automate it")))
	automate.Dir = folder
	if out, err := automate.CombinedOutput(); err != nil || strings.Contains(string(out), `"error":{`) || !strings.Contains(string(out), `"trigger":"api_key"`) {
		t.Fatalf("automate: %v\n%s", err, out)
	}
	holdsKeyAndChain(t, filepath.Join(folder, "www.zip"))
}

func holdsKeyAndChain(t *testing.T, path string) {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	for _, want := range []string{"fullchain.pem", "private.key"} {
		if !slices.ContainsFunc(archive.File, func(f *zip.File) bool { return f.Name == want }) {
			t.Errorf("the archive holds no %s", want)
		}
	}
}

// section returns the first code block under the title.
func section(t *testing.T, title string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## "+title)
	_, block, _ := strings.Cut(rest, "```\n")
	block, _, ok := strings.Cut(block, "\n```")
	if !ok {
		t.Fatalf("README.md has no section %q with a code block", title)
	}
	return block
}

// awaitAnswer polls an address until the answer holds want; with a folder, through curl and the
// cookie jar that the commands left there.
func awaitAnswer(t *testing.T, address, want string, folder *string) {
	t.Helper()
	_, err := eventually(t.Context(), func() (struct{}, error) {
		args := []string{"-sS", address}
		if folder != nil {
			args = append(args, "-b", filepath.Join(*folder, "jar"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "curl", args...).CombinedOutput()
		if err == nil && strings.Contains(string(out), `"FAILED"`) {
			return struct{}{}, permanent{errors.New("answer: " + string(out))}
		}
		if err == nil && !strings.Contains(string(out), want) {
			err = errors.New("answer: " + string(out))
		}
		return struct{}{}, err
	})
	if err != nil {
		t.Fatalf("%s: %v, want %s", address, err, want)
	}
}
