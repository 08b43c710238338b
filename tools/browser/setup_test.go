package browser_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"certharbor.dev/certharbor/tools/browser"
)

// TestSetupPage: the link that serve prints makes the administrator, under the
// page's own strict policy, and the secret leaves the address bar.
func TestSetupPage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	program := filepath.Join(folder, "certharbor")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/certharbor")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	serve := exec.Command(program, "serve", "--listen", address, "--data", filepath.Join(folder, "data")) //nolint:noctx // ended by its signal
	printed, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		_ = serve.Wait()
	})
	link := ""
	for lines := bufio.NewScanner(printed); link == "" && lines.Scan(); {
		if at := strings.Index(lines.Text(), "http://"+address+"/setup#token="); at >= 0 {
			link = lines.Text()[at:]
		}
	}
	if link == "" {
		t.Fatal("serve printed no link")
	}
	p := browser.Open(t)
	p.Go(link)
	p.Wait("document.forms.length === 1 && location.hash === ''")
	p.Fill("[name=email]", email)
	p.Fill("[name=password]", "weak-password")
	p.Click("button")
	message(p, "password: must have 12 or more characters")
	p.Fill("[name=password]", password)
	p.Click("button")
	message(p, "The administrator "+email+" is made and signed in.")
	p.Go("about:blank") // or only the # would change
	p.Go(link)
	p.Wait("document.forms.length === 1 && location.hash === ''")
	p.Fill("[name=email]", email)
	p.Fill("[name=password]", password)
	p.Click("button")
	message(p, "The setup link is used")
}
