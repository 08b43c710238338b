package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// A disk whose syncs fail, once or from some moment on: the agent says so and
// ends with a failure; when the disk is well again the next round ends with the
// newest matching pair and a service reloaded with it.
func TestDiskThatCannotSync(t *testing.T) {
	t.Parallel()
	for _, lasting := range []string{"", "+"} {
		d := newDevice(t)
		d.configure()
		d.server.Issue(5, "a.test")
		d.must("once")
		failed := 0
		for n := 1; n <= 60; n++ {
			serial := d.server.Issue(5, "a.test")
			d.server.Revoke() // so that tokens are rotated, too
			inject := fmt.Sprintf("inject=fsync:error=EIO:when=%d%s", n, lasting)
			agent := d.command("once")
			traced := exec.Command("strace", append([]string{"-f", "-q", "-o", "/dev/null", "-e", "trace=fsync", "-e", inject}, agent.Args...)...)
			traced.Env = agent.Env
			out, err := traced.CombinedOutput()
			if err == nil && !bytes.Contains(out, []byte("input/output error")) {
				break // that many syncs are not made
			}
			failed++
			if err == nil {
				t.Errorf("%d%s: ends well in spite of a failed sync:\n%s", n, lasting, out)
			}
			d.must("once")
			d.newest(serial)
		}
		if failed < 10 {
			t.Errorf("only %d syncs could be made to fail", failed)
		}
	}
}

// configure asks for a pair and a command that notes what it sees.
func (d *device) configure() {
	d.server.SetConfig([]map[string]any{
		{"id": "pair", "type": "copy", "ob_type": "cert", "ob_id": 5, "from": []string{"private.key", "fullchain.pem"},
			"to": []string{d.path("tls/key.pem"), d.path("tls/cert.pem")}},
		{"id": "reload", "type": "exec", "cmd": "cd " + d.dir + " && cat tls/key.pem tls/cert.pem | sha256sum >> reload.log", "depends_on": []string{"pair"}},
	}, "")
}

// must runs a command of the agent that has to succeed.
func (d *device) must(args ...string) {
	d.t.Helper()
	if out, err := d.command(args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// newest checks that the pair with this serial is installed, that the service
// was reloaded after the last change, and that nothing is left behind.
func (d *device) newest(serial string) {
	d.t.Helper()
	pair, err := tls.X509KeyPair(d.read("tls/cert.pem"), d.read("tls/key.pem"))
	if err != nil || pair.Leaf.SerialNumber.Text(16) != serial {
		d.t.Fatalf("installed: %v, want serial %s", err, serial)
	}
	sum, err := exec.Command("sh", "-c", "cat "+d.path("tls/key.pem")+" "+d.path("tls/cert.pem")+" | sha256sum").Output()
	if err != nil || !bytes.HasSuffix(d.read("reload.log"), sum) {
		d.t.Errorf("the last reload saw %q, installed is %q (%v)", d.read("reload.log"), sum, err)
	}
	list, err := exec.Command("ls", "-A", d.path("tls")).Output()
	if err != nil || strings.Contains(string(list), ".certharbor-") {
		d.t.Errorf("left behind: %s %v", list, err)
	}
}
