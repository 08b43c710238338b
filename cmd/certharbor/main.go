// Command certharbor is the CertHarbor server and its operator commands.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand(environ, stdin, stdout, stderr) //nolint:contextcheck // ExecuteContext gives it to the commands
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "certharbor:", err)
		return 1
	}
	return 0
}

func rootCommand(environ []string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "certharbor",
		Short:         "Issue, renew and deliver TLS certificates",
		Example:       "  certharbor serve\n  certharbor user create --email me@example.org --admin --password-stdin < password.txt",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(serveCommand(environ), configCommand(environ), userCommand(environ), auditCommand(environ), openAPICommand(), versionCommand())
	return root
}

// group is a command that only has others below it. Without arguments it shows
// them; cobra alone would do so for a misspelt one too, and call it a success.
func group(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  certharbor version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), version) },
	}
}
