package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"certharbor.dev/certharbor/internal/app"
)

// openAPICommand prints what is committed as api/openapi.json.
func openAPICommand() *cobra.Command {
	return &cobra.Command{
		Use: "openapi", Short: "Print the OpenAPI document of this server", Example: "  certharbor openapi > openapi.json", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, err := os.MkdirTemp("", "certharbor-openapi-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder
			a, err := app.New(cmd.Context(), app.Config{Data: folder, Listen: "127.0.0.1:8080", SessionCookie: "certharbor_session"},
				app.Options{Version: "1", Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				return err
			}
			defer a.Close()
			document, err := a.Mux().OpenAPI()
			if err != nil {
				return err
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, document, "", "  "); err != nil {
				return err
			}
			pretty.WriteByte('\n')
			_, err = pretty.WriteTo(cmd.OutOrStdout())
			return err
		},
	}
}
