package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"certharbor.dev/certharbor/internal/agent"
	"certharbor.dev/certharbor/internal/agent/statedir"
)

func statusCommand(s *settings) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show what is installed and what failed",
		Long:    "Reads the state folder only: it works while an agent runs, and without the server.",
		Example: "  certharbor-agent status --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := agent.ReadStatus(s.state)
			if err != nil {
				return err
			}
			if !asJSON {
				return status.Print(cmd.OutOrStdout(), time.Now())
			}
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			return enc.Encode(status)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; times are Unix milliseconds")
	return cmd
}

func installConfigCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "install-config",
		Short:   "Show or apply what this device is to install",
		Example: "  certharbor-agent install-config show",
	}
	cmd.AddCommand(showCommand(s), applyCommand(s))
	return cmd
}

func showCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Print the install-config as JSON",
		Long:    "Fetches the install-config and prints it. While an agent runs on the state folder, prints\nthe one that agent last fetched.",
		Example: "  certharbor-agent install-config show",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, err := s.config(cmd)
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := json.Indent(&text, raw, "", "  "); err != nil {
				return fmt.Errorf("install-config: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text.String())
			return err
		},
	}
}

// config fetches the install-config, or takes the one a running agent has.
func (s *settings) config(cmd *cobra.Command) (json.RawMessage, error) {
	var raw json.RawMessage
	err := s.within(defaultTimeout, cmd, func(ctx context.Context, a *agent.Agent) error {
		var err error
		raw, err = a.InstallConfig(ctx)
		return err
	})
	if !errors.Is(err, statedir.ErrLocked) {
		return raw, err
	}
	stored, storedErr := agent.StoredInstallConfig(s.state)
	if storedErr != nil {
		return nil, storedErr
	}
	if stored == nil {
		return nil, fmt.Errorf("%w; it has not fetched an install-config yet", err)
	}
	return stored, nil
}

func applyCommand(s *settings) *cobra.Command {
	timeout, force := defaultTimeout, false
	cmd := &cobra.Command{
		Use:     "apply",
		Short:   "Fetch the install-config and carry it out now",
		Long:    "Tries at once what failed before. With --force every file is installed and every command\nrun, changed or not.",
		Example: "  certharbor-agent install-config apply --force",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.within(timeout, cmd, func(ctx context.Context, a *agent.Agent) error { return a.Apply(ctx, force) })
		},
	}
	s.addInstallFlags(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "give up waiting for the server after this time")
	cmd.Flags().BoolVar(&force, "force", false, "install and run everything, changed or not")
	return cmd
}
