package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"certharbor.dev/certharbor/internal/agent"
)

const defaultState = "/var/lib/certharbor-agent"

// settings are the flags that several commands share.
type settings struct {
	getenv      func(string) string
	state       string
	logLevel    string
	trustDir    string
	pfxPassword string // path of a file
	insecure    bool
}

func rootCommand(getenv func(string) string) *cobra.Command {
	s := &settings{getenv: getenv}
	root := &cobra.Command{
		Use:   "certharbor-agent",
		Short: "Keep this device's certificates up to date",
		Long: "certharbor-agent fetches the certificates that a CertHarbor server assigns to this device,\n" +
			"puts them in place and reloads the services that use them.\n\n" +
			"Exit codes: 0 done, 1 something failed, 3 this device must be logged in again.",
		Example: "  certharbor-agent login --server https://certs.example.com\n" +
			"  certharbor-agent run",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	state := getenv("CERTHARBOR_AGENT_STATE")
	if state == "" {
		state = defaultState
	}
	root.PersistentFlags().StringVar(&s.state, "state", state, "folder for keys and state (or environment CERTHARBOR_AGENT_STATE)")
	root.PersistentFlags().StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	root.PersistentFlags().BoolVar(&s.insecure, "insecure", false, "allow a server at http:// that is not on this machine: who is on the way can run commands here")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(loginCommand(s), enrollCommand(s), onceCommand(s), runCommand(s), statusCommand(s), installConfigCommand(s), versionCommand())
	return root
}

// addInstallFlags adds the flags of the commands that install.
func (s *settings) addInstallFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.trustDir, "trust-dir", "", "folder for the CAs of import_ca items, for example /usr/local/share/ca-certificates")
	cmd.Flags().StringVar(&s.pfxPassword, "pfx-password-file", "", "file with the password of bundle.pfx (default: an empty password)")
}

// open opens the agent on the state folder.
func (s *settings) open(cmd *cobra.Command) (*agent.Agent, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", s.logLevel)
	}
	password := ""
	var own []string
	if s.pfxPassword != "" {
		var err error
		if password, err = passwordIn(s.pfxPassword); err != nil {
			return nil, fmt.Errorf("--pfx-password-file: %w", err)
		}
		path, err := filepath.Abs(s.pfxPassword)
		if err != nil {
			return nil, fmt.Errorf("--pfx-password-file: %w", err)
		}
		own = append(own, path)
	}
	return agent.Open(agent.Options{
		State: s.state, Version: version, TrustDir: s.trustDir, PFXPassword: password, Env: s.commandEnv(),
		Own: own, Insecure: s.insecure, Out: cmd.OutOrStdout(), Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})),
	})
}

// maxSecret is more than any password or key has.
const maxSecret = 4096

// passwordIn reads the password that a file holds.
func passwordIn(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	text, err := readSecret(file)
	return strings.TrimRight(text, "\r\n"), err
}

func readSecret(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxSecret {
		return "", fmt.Errorf("more than %d bytes: give the secret alone", maxSecret)
	}
	return string(text), nil
}

// commandEnv gives what commands of items see beside their own env. The rest
// of the agent's environment is nobody's business.
func (s *settings) commandEnv() []string {
	path := s.getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	env := []string{"PATH=" + path}
	for _, name := range []string{"HOME", "LANG", "TZ", "USER", "LOGNAME"} {
		if value := s.getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// with opens the agent, does work and closes it.
func (s *settings) with(cmd *cobra.Command, work func(context.Context, *agent.Agent) error) error {
	a, err := s.open(cmd)
	if err != nil {
		return err
	}
	return errors.Join(work(cmd.Context(), a), a.Close())
}

// within is with, with a time limit.
func (s *settings) within(limit time.Duration, cmd *cobra.Command, work func(context.Context, *agent.Agent) error) error {
	return s.with(cmd, func(ctx context.Context, a *agent.Agent) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return work(ctx, a)
	})
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  certharbor-agent version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), version) },
	}
}
