package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"certharbor.dev/certharbor/internal/agent"
)

// serverFlags are those of the commands that register.
type serverFlags struct {
	server, caFile string
}

func (f *serverFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.server, "server", "", "address of the server, for example https://certs.example.com (required)")
	cmd.Flags().StringVar(&f.caFile, "ca-file", "", "PEM file of certificates to trust beside the system's, kept for later commands")
}

func (f *serverFlags) check() error {
	if f.server == "" {
		return errors.New("--server is missing: give the server's address, for example --server https://certs.example.com")
	}
	return nil
}

func loginCommand(s *settings) *cobra.Command {
	f := &serverFlags{}
	cmd := &cobra.Command{
		Use:   "login --server URL",
		Short: "Register this device with the help of a person",
		Long: "Prints a link and a code. Open the link in any browser, sign in and confirm the code;\n" +
			"this command waits for it (at most 15 minutes) and registers the device.",
		Example: "  certharbor-agent login --server https://certs.example.com",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return s.with(cmd, func(ctx context.Context, a *agent.Agent) error { return a.Login(ctx, f.server, f.caFile) })
		},
	}
	f.add(cmd)
	return cmd
}

func enrollCommand(s *settings) *cobra.Command {
	f := &serverFlags{}
	fromStdin := false
	cmd := &cobra.Command{
		Use:   "enroll --server URL --api-key-stdin",
		Short: "Register this device with an API key",
		Long: "Reads an API key with the scope ForDeviceAuthenticate from standard input and registers\n" +
			"the device with it. The key is not stored.",
		Example: "  certharbor-agent enroll --server https://certs.example.com --api-key-stdin < key.txt",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if !fromStdin {
				return errors.New("--api-key-stdin is missing: the key is read from standard input only, where no process list shows it")
			}
			text, err := readSecret(cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("read API key: %w", err)
			}
			key := strings.TrimSpace(text)
			return s.with(cmd, func(ctx context.Context, a *agent.Agent) error { return a.Enroll(ctx, f.server, f.caFile, key) })
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&fromStdin, "api-key-stdin", false, "read the API key from standard input (required)")
	return cmd
}
