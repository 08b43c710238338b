package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/audit"
)

func auditList(environ []string) *cobra.Command {
	var user, since string
	var filter audit.Filter
	var limit int64
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "Show entries of the audit log, the newest first",
		Long: `Show entries of the audit log, the newest first: of the user that --user names, or
those that belong to no user, such as refused sign-ins of unknown accounts.`,
		Example: `  certharbor audit list
  certharbor audit list --action session.sign_in_refused --since 24h
  certharbor audit list --user me@example.org --since 2026-11-01 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := sinceTime(since, time.Now())
			if err != nil {
				return err
			}
			filter.Since = from
			if limit < 1 || limit > 100_000 {
				return fmt.Errorf("--limit must be 1 to 100000, not %d", limit)
			}
			c, err := app.Load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			records, err := app.ListAudit(cmd.Context(), c, user, filter, limit)
			if err != nil {
				return public(err)
			}
			return writeEntries(cmd.OutOrStdout(), records, asJSON)
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "the `user`, by id or e-mail address, whose log is shown; without it, what belongs to no user")
	cmd.Flags().StringVar(&filter.Action, "action", "", "only entries of exactly this `action`, for example session.sign_in_refused")
	cmd.Flags().StringVar(&since, "since", "", "only entries since this `time`: 24h, 2026-11-21 or 2026-11-21T10:00:00Z")
	cmd.Flags().Int64Var(&limit, "limit", 100, "at most so many `entries`, 1 to 100000")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line, as in the API")
	return cmd
}

// sinceTime reads a time or how long ago it was, as Unix ms.
func sinceTime(text string, now time.Time) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago).UnixMilli(), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return max(0, at.UnixMilli()), nil
		}
	}
	return 0, fmt.Errorf("--since %s: want a duration such as 24h, a date such as 2026-11-21, or a time such as 2026-11-21T10:00:00Z", text)
}

func writeEntries(out io.Writer, records []audit.AdminRecord, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		for i := range records {
			if err := encoder.Encode(records[i]); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TIME\tACTOR\tACTION\tOBJECT\tADDRESS\tDETAIL")
	for i := range records {
		r := &records[i]
		detail, err := json.Marshal(r.Detail)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", time.UnixMilli(r.At).UTC().Format(time.RFC3339), r.Actor, r.Action, r.Object, r.IP, detail)
	}
	return w.Flush()
}
