package install_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/agent/install"
)

// An item that is written anew is tried at once, whatever failed before.
func TestMendedTargetIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := supply(t, record(t, 5, 1))
	r.want(r.apply(r.config(strings.Replace(copyPair, "@/key.pem", "/etc/hosts", 1), ""), in), "pair:failed")
	r.want(r.apply(r.config(copyPair, ""), in), "pair:ok")
}

// The agent's own files are never targets, by whatever name.
func TestOwnFilesAreNoTargets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("agent", "the program")
	r.engine.Own = []string{r.path("agent"), r.path("not-there-yet")}
	r.must(os.Link(r.path("agent"), r.path("hardlink")), os.Symlink("agent", r.path("link")), os.Symlink("state", r.path("alias")),
		os.Symlink("/etc/hosts", r.path("names")))
	for to, says := range map[string]string{
		"agent": "is a file that decides", "hardlink": "is a file that decides", "link": "is a file that decides", "not-there-yet": "is a file that decides",
		"names": "is a file that decides", "/etc/hosts": "is a file that decides", "/etc/resolv.conf": "is a file that decides", "/etc/default/certharbor-agent": "is a file that decides",
		"/etc/systemd/system/certharbor-agent.service": "is a file that decides", "/etc/systemd/system/certharbor-agent.service.d/x.conf": "is a file that decides",
		"/usr/lib/systemd/system/certharbor-agent.timer": "is a file that decides",
		"state/items.json": "own state folder", "state/deep/x": "own state folder", "alias/items.json": "the agent's own", "alias/deep/x": "the agent's own",
		"certharbor-agent.pem": "", "certharbor-agent/cert.pem": "", "state.d/x": "",
	} {
		path := to
		if !filepath.IsAbs(to) {
			path = r.path(to)
		}
		cfg := r.config(`{"id":"x","type":"copy","ob_type":"cert","ob_id":5,"from":["certificate.pem"],"to":["`+path+`"]}`, "")
		got := r.applyWith(cfg, supply(t, record(t, 5, 1)), install.Options{IgnoreBackoff: true})["x"]
		if (got.Status == "ok") != (says == "") || !strings.Contains(got.Error, says) {
			t.Errorf("%s: %s %q", to, got.Status, got.Error)
		}
	}
	if text, err := os.ReadFile(r.path("agent")); err != nil || string(text) != "the program" {
		t.Errorf("%q, %v", text, err)
	}
}
