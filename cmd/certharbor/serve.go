package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"certharbor.dev/certharbor/internal/app"
)

func serveCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{ //nolint:gosec // the example shows where a password stands
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server.

Every flag is also an environment variable (--http01-listen is
CERTHARBOR_HTTP01_LISTEN) and a key of the YAML file given with --config.
A flag wins over the environment, the environment over the file.`,
		Example: `  certharbor serve
  certharbor serve --listen :8080 --base-url https://certs.example.org --http01-listen :80
  certharbor serve --db postgres://certharbor:secret@db/certharbor`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := app.Load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			return app.Serve(cmd.Context(), c, version, environ, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	app.Flags(cmd.Flags())
	return cmd
}

func configCommand(environ []string) *cobra.Command {
	check := &cobra.Command{
		Use:     "check",
		Short:   "Print the effective settings and everything that is wrong with them",
		Example: "  certharbor config check --config certharbor.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := app.Load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			for _, line := range c.Shown() {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			for _, warning := range c.Warnings() {
				fmt.Fprintln(cmd.OutOrStdout(), "warning: "+warning)
			}
			if err := c.Check(); err != nil {
				return fmt.Errorf("these settings will not do:\n%w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "All settings are fine.")
			return nil
		},
	}
	app.Flags(check.Flags())
	return group("config", "Look at the settings", "  certharbor config check --config certharbor.yaml", check)
}
