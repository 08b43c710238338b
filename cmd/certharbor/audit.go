package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/durable"
)

func auditCommand(environ []string) *cobra.Command {
	cmd := group("audit", "Read and verify the audit log", "  certharbor audit verify", auditList(environ), auditVerify(environ), auditAccept(environ))
	for _, sub := range cmd.Commands() {
		app.OperatorFlags(sub.Flags())
	}
	return cmd
}

func auditVerify(environ []string) *cobra.Command {
	var save, expect string
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that nobody changed the audit log",
		Long: `Check that no entry of the audit log was changed, removed, added or moved since it
was recorded. It works whether the server runs or not, and takes its master key.

Somebody who can restore the whole database to an older state can make the log
forget what came after. --save writes the newest entry of each chain to a file;
kept elsewhere and given to --expect later, it shows that those are still there.`,
		Example: `  certharbor audit verify
  certharbor audit verify --save /mnt/elsewhere/anchors.txt
  certharbor audit verify --expect /mnt/elsewhere/anchors.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := app.Load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			v := audit.Verification{Progress: progress(cmd.ErrOrStderr(), 5*time.Second)}
			if v.Anchors, err = readAnchors(expect); err != nil {
				return err
			}
			verified, err := app.VerifyAudit(cmd.Context(), c, v)
			if err != nil {
				return err
			}
			if err := saveAnchors(save, verified.Anchors); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d entries in %d chains: nothing was changed\n", verified.Entries, len(verified.Anchors))
			return nil
		},
	}
	cmd.Flags().StringVar(&save, "save", "", "write the newest entry of each chain to this `file`")
	cmd.Flags().StringVar(&expect, "expect", "", "`file` of an earlier --save, whose entries must still be there")
	return cmd
}

func auditAccept(environ []string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "accept --reason TEXT", Short: "Take the audit log as it is after a backup was restored",
		Long: `Take the audit log as it is. The server does not start when its audit log or the
log's key is gone, and reports a log that was set back to an older state. After you
restored a backup, or began with a new database in an old data folder, this command
accepts what there is. It is recorded, with the reason. Entries that were changed one
by one stay wrong: audit verify goes on to find them.`,
		Example: "  certharbor audit accept --reason 'restored the backup of 2 March after a disk failure'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(reason) == "" {
				return errors.New("say why, for those who read the log later: --reason 'restored the backup of 2 March'")
			}
			c, err := app.Load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			accepted, err := app.AcceptAudit(cmd.Context(), c, reason)
			if err != nil {
				return err
			}
			if accepted.What == "" {
				fmt.Fprintln(cmd.OutOrStdout(), "there is nothing to accept")
				return nil
			}
			fmt.Fprintf(cmd.OutOrStdout(), "accepted: %s; %d users have a new log\n", accepted.What, accepted.Users)
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why it is accepted, as a `text` for the log")
	return cmd
}

// progress tells now and then how many entries were checked.
func progress(w io.Writer, every time.Duration) func(int64) {
	last := time.Now()
	return func(entries int64) {
		if time.Since(last) >= every {
			last = time.Now()
			fmt.Fprintf(w, "%d entries checked…\n", entries)
		}
	}
}

func readAnchors(path string) ([]audit.Anchor, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("--expect: %w", err)
	}
	defer func() { _ = f.Close() }()
	anchors, err := audit.ReadAnchors(f)
	if err != nil {
		return nil, fmt.Errorf("--expect %s: %w", path, err)
	}
	return anchors, nil
}

// saveAnchors replaces the file as a whole: the old one is evidence until the
// new one is there.
func saveAnchors(path string, anchors []audit.Anchor) error {
	if path == "" {
		return nil
	}
	if err := durable.WriteFile(path, audit.FormatAnchors(anchors), 0o600); err != nil {
		return fmt.Errorf("--save: %w", err)
	}
	return nil
}
