package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"certharbor.dev/certharbor/internal/agent/wiretest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"certharbor-agent": main})
}

type serverKey struct{}

// TestScripts runs the commands as people do, each script against a server of
// its own ($SERVER, $TLSSERVER with ca.pem) and a state folder ($STATE).
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup:               setup,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"server": serverCommand, "exits": exits},
	})
}

func setup(env *testscript.Env) error {
	t, ok := env.T().(testing.TB)
	if !ok {
		panic("testscript no longer gives a testing.TB")
	}
	s, secure := wiretest.New(t), wiretest.NewTLS(t)
	secure.AutoApprove = true
	env.Values[serverKey{}] = s
	env.Setenv("SERVER", s.URL)
	env.Setenv("TLSSERVER", secure.URL)
	env.Setenv("APIKEY", wiretest.APIKey)
	env.Setenv("CERTHARBOR_AGENT_STATE", filepath.Join(env.WorkDir, "state"))
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	return os.WriteFile(filepath.Join(env.WorkDir, "ca.pem"), secure.CAFile(), 0o600)
}

// serverCommand changes the server: issue ID NAME, config FILE, forget,
// approve, down, up, await WORDS N.
func serverCommand(ts *testscript.TestScript, _ bool, args []string) {
	s, ok := ts.Value(serverKey{}).(*wiretest.Server)
	if !ok || len(args) == 0 {
		ts.Fatalf("usage: server issue|config|forget|approve|down|up|await")
	}
	switch args[0] {
	case "issue":
		id, err := strconv.ParseInt(args[1], 10, 64)
		ts.Check(err)
		ts.Setenv("SERIAL", s.Issue(id, args[2]))
	case "config":
		text := strings.ReplaceAll(ts.ReadFile(args[1]), "WORK", ts.MkAbs("."))
		s.SetConfig(json.RawMessage(text), "")
	case "forget":
		s.Forget()
	case "approve":
		s.Answer("ready")
	case "down":
		s.Fail("/", 1000, wiretest.Hangup)
	case "up":
		s.Heal()
	case "await":
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		s.Await(tb{ts}, args[1], n)
	default:
		ts.Fatalf("unknown: %s", args[0])
	}
}

// tb lets a script's failure end the script.
type tb struct{ *testscript.TestScript }

func (tb) Helper() {}

// exits runs a command that must end with the given code: exits 3 certharbor-agent once.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	check := `want=$1; shift; "$@"; code=$?; [ $code = $want ] || { echo "exit code $code, want $want" >&2; exit 1; }`
	ts.Check(ts.Exec("sh", append([]string{"-c", check, "sh"}, args...)...))
}
