// Command certharbor-agent registers a device at a CertHarbor server, keeps
// its certificates up to date and reloads the services that use them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"certharbor.dev/certharbor/internal/agent"
	"certharbor.dev/certharbor/internal/agent/client"
)

// version is set by the linker.
var version = "dev"

// Exit codes. A service manager need not restart after exitLogin.
const (
	exitFailed = 1
	exitLogin  = 3
)

func main() {
	// Libraries print there, the trace of HTTP/2 above all, which
	// GODEBUG=http2debug=1 switches on and which holds tokens and keys.
	log.SetOutput(io.Discard)
	// The first signal ends what can wait, the second ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "certharbor-agent:", err)
		os.Exit(exitCode(err))
	}
}

func exitCode(err error) int {
	if errors.Is(err, client.ErrLoginRequired) || errors.Is(err, agent.ErrNotLoggedIn) {
		return exitLogin
	}
	return exitFailed
}

// run is the whole program.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) error {
	root := rootCommand(getenv) //nolint:contextcheck // the commands get it from ExecuteContext below
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}
