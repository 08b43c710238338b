package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The commands as an operator types them. Beside testscript's own commands:
//
//	serve [flags]   starts a server on ./data; LISTEN in the environment is where it listens
//	terminate       ends it by SIGTERM
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[running{}] = new(running)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": func(ts *testscript.TestScript, _ bool, args []string) {
				srv := serve(t, setup{dir: ts.Getenv("WORK"), data: "data", args: args})
				ts.Defer(srv.kill)
				ts.Value(running{}).(*running).server = srv
				ts.Setenv("LISTEN", strings.TrimPrefix(srv.URL, "http://"))
			},
			"terminate": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Value(running{}).(*running).server.stop()
			},
		},
	})
}

// running is the server that a script started last.
type running struct{ server *server }

// Every command says what it is for and shows an example in its help.
func TestHelpOfEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	n := 0
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		n++
		if c.Short == "" || !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no description", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(rootCommand(os.Environ(), strings.NewReader(""), io.Discard, io.Discard))
	if n < 9 {
		t.Errorf("%d commands", n)
	}
}
