package install_test

import (
	"os"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/agent/install"
)

// A present target of any size, which its owner makes at no cost, costs the
// agent nothing either: it is another file than the wanted one.
func TestPresentTargetOfAnySize(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1<<20 + 1, 6 << 40} {
		r := newRig(t)
		r.write("key.pem", "x")
		if err := os.Truncate(r.path("key.pem"), size); err != nil {
			t.Fatal(err)
		}
		cfg := r.config(copyPair+","+reload, "")
		r.want(r.apply(cfg, supply(t, record(t, 5, 1))), "pair:ok reload:ok")
		if r.serial() != "1" {
			t.Errorf("%d bytes: serial %s", size, r.serial())
		}
		// The same when it was ours before.
		if err := os.Truncate(r.path("cert.pem"), size); err != nil {
			t.Fatal(err)
		}
		r.restart()
		if wants, err := r.engine.Needs(cfg, func(install.Ref) bool { return false }); err != nil || len(wants) != 1 {
			t.Errorf("needs %v, %v", wants, err)
		}
		r.want(r.apply(cfg, supply(t, record(t, 5, 2))), "pair:ok reload:ok")
		r.clean()
	}
}

// What is larger than the agent would compare later is not installed.
func TestDeliveredFileIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := supply(t, record(t, 5, 1))
	files := in.Objects[install.Ref{Kind: "cert", ID: 5}].Files
	chain := files["fullchain.pem"]
	chain.Data = make([]byte, 1<<20+1)
	files["fullchain.pem"] = chain
	got := r.apply(r.config(copyPair, ""), in)
	if r.want(got, "pair:failed"); !strings.Contains(got["pair"].Error, "at most") {
		t.Errorf("%+v", got)
	}
	if _, err := install.Parse([]byte(`{"installs":[` + strings.TrimSuffix(strings.Repeat("{},", 4001), ",") + `]}`)); err == nil {
		t.Error("4001 items were taken")
	}
}

// Outcomes that the server does not take are not kept for ever.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	r := neighbourIn(t, memoryDir(t))
	cfg := r.config(`{"id":"x","type":"exec","cmd":"exit 1"}`, "")
	for range 205 {
		r.applyWith(cfg, supply(t), install.Options{IgnoreBackoff: true, Force: true})
	}
	if reports, err := r.engine.TakeReports(); err != nil || len(reports) != 200 {
		t.Errorf("%d reports, %v", len(reports), err)
	}
}
