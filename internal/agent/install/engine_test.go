package install_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent/install"
)

func TestInstallRenewAndNothingToDo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(copyPair+","+reload, "")
	first, second := record(t, 5, 1), record(t, 5, 2)

	r.want(r.apply(cfg, supply(t, first)), "pair:ok reload:ok")
	if r.serial() != "1" || len(r.reloads()) != 1 {
		t.Fatalf("serial %s, %d reloads", r.serial(), len(r.reloads()))
	}
	for name, want := range map[string]os.FileMode{"key.pem": 0o600, "cert.pem": 0o644} {
		info, err := os.Stat(r.path(name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	// The same again, fetched or not, in this process or in the next: no reload.
	r.want(r.apply(cfg, supply(t, first)), "pair:ok reload:ok")
	r.restart()
	r.want(r.apply(cfg, supply(t)), "pair:ok reload:ok")
	if n := len(r.reloads()); n != 1 {
		t.Errorf("%d reloads without a change", n)
	}
	// Mode and owner of what an operator set stay.
	if err := os.Chmod(r.path("key.pem"), 0o640); err != nil {
		t.Fatal(err)
	}
	old := r.read("key.pem")
	r.want(r.apply(cfg, supply(t, second)), "pair:ok reload:ok")
	if r.serial() != "2" || len(r.reloads()) != 2 || r.read("key.pem.previous") != old {
		t.Errorf("serial %s, %d reloads", r.serial(), len(r.reloads()))
	}
	if info, err := os.Stat(r.path("key.pem")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	r.clean()
}

func TestFailedReloadRestoresBothFilesAndReloadsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(copyPair+","+reload, "echo ran >> @/script.log")
	r.want(r.apply(cfg, supply(t, record(t, 5, 1))), "pair:ok reload:ok")
	good := r.reloads()[0]
	r.write("allowed", good)

	second := supply(t, record(t, 5, 2))
	got := r.apply(cfg, second)
	r.want(got, "pair:failed reload:failed")
	if !strings.Contains(got["pair"].Error, "restored") {
		t.Errorf("pair says %q", got["pair"].Error)
	}
	if n := r.reloads(); r.serial() != "1" || len(n) != 3 || n[2] != good {
		t.Fatalf("serial %s, reloads %v", r.serial(), n)
	}
	r.clean()
	// It is remembered over a restart, and not tried again at once ...
	r.restart()
	if got := r.apply(cfg, second); !got["reload"].Deferred || len(r.reloads()) != 3 {
		t.Errorf("tried again at once: %+v", got)
	}
	// ... but later, or when there is something new, or when told to.
	if err := r.clock.Sleep(t.Context(), 31*time.Second); err != nil {
		t.Fatal(err)
	}
	r.want(r.apply(cfg, second), "reload:failed")
	if n := len(r.reloads()); n != 5 {
		t.Errorf("%d reloads after waiting", n)
	}
	r.want(r.applyWith(cfg, second, install.Options{IgnoreBackoff: true}), "reload:failed")
	if err := os.Remove(r.path("allowed")); err != nil {
		t.Fatal(err)
	}
	r.want(r.apply(cfg, supply(t, record(t, 5, 3))), "pair:ok reload:ok after_update_script:ok")
	if r.serial() != "3" || strings.Count(r.read("script.log"), "ran") != 2 {
		t.Errorf("serial %s, script ran %q", r.serial(), r.read("script.log"))
	}
	if retry, err := r.engine.NextRetry(); err != nil || !retry.IsZero() {
		t.Errorf("retry at %v, %v", retry, err)
	}
}

func TestFirstInstallThatFailsLeavesNoFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write("allowed", "nothing")
	r.want(r.apply(r.config(copyPair+","+reload, ""), supply(t, record(t, 5, 1))), "pair:failed reload:failed")
	if s := r.serial(); s != "" {
		t.Errorf("serial %s stays installed", s)
	}
	r.clean()
}

func TestReportsTellEachOutcomeOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(copyPair+","+reload, "")
	r.apply(cfg, supply(t, record(t, 5, 1)))
	r.apply(cfg, supply(t))
	r.write("allowed", "nothing")
	r.apply(cfg, supply(t, record(t, 5, 2)))
	r.restart()
	reports, err := r.engine.TakeReports()
	if err != nil || len(reports) != 3 {
		t.Fatalf("%+v, %v", reports, err)
	}
	if ok := reports[0]; ok.CertID != 5 || ok.Serial != "1" || ok.Status != "ok" {
		t.Errorf("first %+v", ok)
	}
	if bad := reports[1]; bad.CertID != 5 || bad.Serial != "2" || bad.Status != "failed" || bad.Error == "" {
		t.Errorf("second %+v", bad)
	}
	if err := r.engine.Reported(len(reports)); err != nil {
		t.Fatal(err)
	}
	if reports, err := r.engine.TakeReports(); err != nil || len(reports) != 0 {
		t.Errorf("%+v, %v", reports, err)
	}
}

// A file that somebody changed or removed is put back, with a reload.
func TestDriftIsMended(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(copyPair+","+reload, "")
	rec := record(t, 5, 1)
	r.apply(cfg, supply(t, rec))
	r.write("cert.pem", "garbage")
	if wants, err := r.engine.Needs(cfg, func(install.Ref) bool { return false }); err != nil || len(wants) != 1 || !wants[0].Key {
		t.Fatalf("needs %+v, %v", wants, err)
	}
	r.want(r.apply(cfg, supply(t, rec)), "pair:ok reload:ok")
	if r.serial() != "1" || len(r.reloads()) != 2 {
		t.Errorf("serial %s, %d reloads", r.serial(), len(r.reloads()))
	}
	if wants, err := r.engine.Needs(cfg, func(install.Ref) bool { return false }); err != nil || len(wants) != 0 {
		t.Errorf("needs %+v, %v", wants, err)
	}
}

// PKCS#12 has other bytes each time it is made: that alone is no change.
func TestBundleIsNotRewrittenWithoutCause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(`{"id":"pfx","type":"copy","ob_type":"cert","ob_id":5,"from":["bundle.pfx"],"to":["@/b.pfx"]},
		{"id":"reload","type":"exec","cmd":["/bin/sh","-c","echo x >> @/reload.log"]}`, "")
	rec := record(t, 5, 1)
	for range 3 {
		r.want(r.apply(cfg, supply(t, rec)), "pfx:ok reload:ok")
	}
	if n := len(r.reloads()); n != 1 {
		t.Errorf("%d reloads", n)
	}
}

func TestForceDoesEverythingAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(copyPair+","+reload, "")
	in := supply(t, record(t, 5, 1))
	r.apply(cfg, in)
	r.want(r.applyWith(cfg, in, install.Options{Force: true}), "pair:ok reload:ok")
	if n := len(r.reloads()); n != 2 {
		t.Errorf("%d reloads", n)
	}
	r.clean()
}

// What is missing or cannot be written holds up what depends on it, and
// nothing that is installed already.
func TestOneBadCertificateDoesNotStopAnother(t *testing.T) {
	t.Parallel()
	const two = `{"id":"a","type":"copy","ob_type":"cert","ob_id":5,"from":["private.key","fullchain.pem"],"to":["@/key.pem","@/cert.pem"]},
		{"id":"b","type":"copy","ob_type":"cert","ob_id":6,"from":["fullchain.pem","private.key"],"to":["@/b/cert.pem","@/b/key.pem"]},`
	explicit := two + `{"id":"reload","type":"exec","cmd":"echo x >> @/reload.log","depends_on":["a","b"]}`
	follows := two + `{"id":"reload","type":"exec","cmd":"echo x >> @/reload.log"}`
	missing := install.Ref{Kind: "cert", ID: 6}

	r := newRig(t)
	in := supply(t, record(t, 5, 1))
	in.Errors[missing], in.Waiting[missing] = errors.New("not issued"), true
	r.want(r.apply(r.config(explicit, ""), in), "a:blocked b:waiting reload:blocked")
	if r.serial() != "" || len(r.reloads()) != 0 {
		t.Error("half of what the command depends on was installed")
	}
	r.want(r.apply(r.config(follows, ""), in), "a:ok b:waiting reload:ok")
	if r.serial() != "1" || len(r.reloads()) != 1 {
		t.Errorf("serial %s, %d reloads", r.serial(), len(r.reloads()))
	}

	r = newRig(t)
	r.want(r.apply(r.config(explicit, ""), supply(t, record(t, 5, 1), record(t, 6, 1))), "a:ok b:ok reload:ok")
	in = supply(t, record(t, 5, 2))
	in.Errors[missing] = errors.New("gone")
	r.want(r.apply(r.config(explicit, ""), in), "a:ok b:failed reload:ok")
	if r.serial() != "2" || len(r.reloads()) != 2 {
		t.Errorf("serial %s, %d reloads", r.serial(), len(r.reloads()))
	}
	// A folder that cannot be written counts the same.
	if err := os.RemoveAll(r.path("b")); err != nil {
		t.Fatal(err)
	}
	r.write("b", "a file where the folder was")
	r.want(r.apply(r.config(follows, ""), supply(t, record(t, 5, 3), record(t, 6, 3))), "a:ok b:failed reload:ok")
	if r.serial() != "3" {
		t.Errorf("serial %s", r.serial())
	}
	r.clean()
}

// Key and certificate in two items still go together or not at all.
func TestSplitPairStaysTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(`{"id":"key","type":"copy","ob_type":"cert","ob_id":5,"from":["private.key"],"to":["@/key.pem"]},
		{"id":"cert","type":"copy","ob_type":"cert","ob_id":5,"from":["fullchain.pem"],"to":["@/cert.pem"],"verify":{"tls":{"address":"127.0.0.1:1"}}}`, "")
	r.want(r.apply(cfg, supply(t, record(t, 5, 1))), "key:failed cert:failed")
	if r.serial() != "" {
		t.Error("half a pair stays installed")
	}
}

func TestContinueOnError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(copyPair+`,{"id":"soft","type":"exec","cmd":"exit 3","continue_on_error":true,"depends_on":["pair"]},`+
		`{"id":"reload","type":"exec","cmd":"`+reloadText+`","depends_on":["soft"]}`, "")
	r.want(r.apply(cfg, supply(t, record(t, 5, 1))), "pair:ok soft:failed reload:ok")
	if r.serial() != "1" || len(r.reloads()) != 1 {
		t.Errorf("serial %s, %d reloads", r.serial(), len(r.reloads()))
	}
}

// A command that copies depend on runs before each change of theirs.
func TestPreparingCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(`{"id":"prepare","type":"exec","cmd":"mkdir -p @/new; echo p >> @/prepare.log"},
		{"id":"pair","type":"copy","ob_type":"cert","ob_id":5,"depends_on":["prepare"],"from":["fullchain.pem","private.key"],"to":["@/cert.pem","@/key.pem"]}`, "")
	for serial, want := range []int{1, 2} {
		r.want(r.apply(cfg, supply(t, record(t, 5, int64(serial+1)))), "prepare:ok pair:ok")
		r.apply(cfg, supply(t))
		if n := strings.Count(r.read("prepare.log"), "p"); n != want {
			t.Errorf("prepared %d times, want %d", n, want)
		}
	}
}

func TestScriptIsDueUntilItSucceeds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(copyPair, "@@@BEGIN windows.cmd\nexit 9\n@@@END\n@@@begin x\n@@@BEGIN POSIX.sh\necho x >> @/script.log\n[ -e @/ok ]\n@@@END\n")
	r.want(r.apply(cfg, supply(t, record(t, 5, 1))), "pair:ok after_update_script:failed")
	if got := r.apply(cfg, supply(t)); !got["after_update_script"].Deferred {
		t.Errorf("%+v", got)
	}
	r.write("ok", "")
	r.restart()
	if err := r.clock.Sleep(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := r.engine.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.apply(cfg, supply(t))
	if n := strings.Count(r.read("script.log"), "x"); n != 2 {
		t.Errorf("script ran %d times", n)
	}
}

func TestImportCA(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(`{"id":"ca","type":"import_ca","ob_type":"ca","ob_id":3,"from":["ca.pem"]}`, "")
	in := supply(t, record(t, 3, 7))
	in.Objects[install.Ref{Kind: "ca", ID: 3}] = in.Objects[install.Ref{Kind: "cert", ID: 3}]
	in.Objects[install.Ref{Kind: "ca", ID: 3}].Files["ca.pem"] = in.Objects[install.Ref{Kind: "cert", ID: 3}].Files["fullchain.pem"]
	got := r.apply(cfg, in)
	if r.want(got, "ca:failed"); !strings.Contains(got["ca"].Error, "--trust-dir") {
		t.Errorf("%+v", got)
	}
	r.engine.TrustDir = r.path("trust")
	r.want(r.applyWith(cfg, in, install.Options{IgnoreBackoff: true}), "ca:ok")
	if !strings.Contains(r.read("trust/certharbor-ca-3.crt"), "BEGIN CERTIFICATE") {
		t.Error("CA is not in the trust folder")
	}
}

func TestDamagedStateStartsAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(copyPair+","+reload, "")
	rec := record(t, 5, 1)
	r.apply(cfg, supply(t, rec))
	for _, name := range []string{"state/items.json", "state/journal.json"} {
		r.restart()
		r.write(name, "\x00\x00")
		if err := r.engine.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := len(r.reloads())
		r.want(r.apply(cfg, supply(t, rec)), "pair:ok reload:ok")
		if n := len(r.reloads()); n != before+1 {
			t.Errorf("%s: %d reloads after %d", name, n, before)
		}
	}
	r.clean()
}

// Links and special files at the target.
func TestTargetThatIsNoPlainFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(copyPair, "")
	r.write("elsewhere", "keep me")
	if err := os.Symlink(r.path("elsewhere"), r.path("key.pem")); err != nil {
		t.Fatal(err)
	}
	r.want(r.apply(cfg, supply(t, record(t, 5, 1))), "pair:ok")
	if r.read("elsewhere") != "keep me" || r.serial() != "1" {
		t.Error("the link was written through")
	}
	if to, err := os.Readlink(r.path("key.pem.previous")); err != nil || to != r.path("elsewhere") {
		t.Errorf("previous leads to %q, %v", to, err)
	}
	r = newRig(t)
	if err := syscall.Mkfifo(r.path("cert.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(r.apply(r.config(copyPair, ""), supply(t, record(t, 5, 1))), "pair:failed")
	r.clean()
}
