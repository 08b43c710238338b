package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"certharbor.dev/certharbor/internal/agent"
)

const defaultTimeout = 5 * time.Minute

func onceCommand(s *settings) *cobra.Command {
	timeout := defaultTimeout
	cmd := &cobra.Command{
		Use:   "once",
		Short: "Do one round: fetch, install, report",
		Long: "Fetches the install-config and its certificates, installs what changed and runs the\n" +
			"commands that go with it. The exit code says whether anything failed or still waits.",
		Example: "  certharbor-agent once --timeout 2m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.within(timeout, cmd, func(ctx context.Context, a *agent.Agent) error { return a.Once(ctx) })
		},
	}
	s.addInstallFlags(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "give up waiting for the server after this time")
	return cmd
}

func runCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Stay and keep everything up to date",
		Long: "Follows the server's signals until it is stopped (SIGTERM or Ctrl-C) and installs what\n" +
			"changes within seconds. A server that is away is waited for.",
		Example: "  certharbor-agent run --state /var/lib/certharbor-agent",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, a *agent.Agent) error { return a.Run(ctx) })
		},
	}
	s.addInstallFlags(cmd)
	return cmd
}
