package installs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/sqldb"
)

// maxWarnings bounds the warnings of one answer.
const maxWarnings = 50

// maxLooked bounds how many certificates are looked at within one write, which
// keeps others from writing.
const maxLooked = 100

// examine finds what would keep an agent from following the configuration. An
// agent handles what it was told of in batches: the first thing that fails drops
// the rest of its batch, renewals of other certificates included. An item that
// names a CA that does not exist can never work: where strict it is refused.
// What may come right later is a warning.
func (s *Service) examine(ctx context.Context, q sqldb.Querier, row *InstallConfig, strict bool) ([]string, error) {
	items, err := decodeItems(row.Installs)
	if err != nil {
		return nil, err
	}
	e := examination{strict: strict}
	userID := userOf(access.From(ctx))
	certs, cas := named(items, obCert), named(items, obCA)
	if more := len(certs) - maxLooked; more > 0 {
		certs = certs[:maxLooked]
		e.last = certs[maxLooked-1]
		e.warn(fmt.Sprintf("installs names %d certificates; whether the device can fetch the last %d of them was not looked at.", len(certs)+more, more))
	}
	if e.certs, err = s.objects.Certificates(ctx, q, userID, row.DeviceID, certs); err != nil {
		return nil, fmt.Errorf("look at the certificates of an install config: %w", err)
	}
	if e.cas, err = s.objects.CAs(ctx, q, userID, cas); err != nil {
		return nil, fmt.Errorf("look at the CAs of an install config: %w", err)
	}
	for i := range items {
		if err := e.item(checked{&items[i], i}); err != nil {
			return nil, err
		}
	}
	if script := text(row.AfterUpdateScript); script != nil {
		if problem := blockProblem(*script); problem != "" {
			e.warn("after_update_script " + problem)
		}
	}
	if more := len(e.warnings) - maxWarnings; more > 0 {
		e.warnings = append(e.warnings[:maxWarnings], fmt.Sprintf("%d more warnings are left out.", more))
	}
	return e.warnings, nil
}

// takes tells whether an agent does anything for the item.
func (it *Item) takes() bool {
	if it.Enabled != nil && !*it.Enabled {
		return false
	}
	return it.Type != typeCopy || slices.ContainsFunc(it.To, func(path string) bool { return path != "" })
}

// named lists the objects that agents look for, each once.
func named(items []Item, obType string) []int64 {
	var ids []int64
	for i := range items {
		if items[i].takes() && items[i].ObType == obType && items[i].ObID != 0 {
			ids = append(ids, items[i].ObID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

type examination struct {
	strict   bool
	last     int64 // certificates with higher ids were not looked at; 0: all were
	certs    map[int64]string
	cas      map[int64]bool
	warnings []string
}

func (e *examination) warn(sentence string) { e.warnings = append(e.warnings, sentence) }

const dropped = "the agent drops the rest of what it was told at the same time"

func (e *examination) item(it checked) error {
	if !it.takes() {
		return nil
	}
	place := fmt.Sprintf("installs[%d] (item %.100q)", it.index, it.ID)
	switch {
	case it.Type == typeExec && (it.ObType == "" || it.ObID == 0):
		e.warn(place + " is an exec item without ob_type and ob_id: agents other than certharbor-agent fail on it, and " + dropped +
			". Give it the ob_type and ob_id of what it is run for, or use after_update_script.")
		return nil
	case it.Type == typeExec && it.ObType == obCert:
		e.warn(place + " is an exec item of a cert: agents other than certharbor-agent drop its cmd, env, run_as and timeout_ms. Use after_update_script for them.")
	}
	switch it.ObType {
	case obCA:
		if e.cas[it.ObID] {
			return nil
		}
		if e.strict && it.Type != typeExec {
			return it.wrong("ob_id", "names no certificate authority of yours (%d)", it.ObID)
		}
		e.warn(fmt.Sprintf("%s names CA %d, which is none of yours: where an agent cannot fetch it, %s.", place, it.ObID, dropped))
	case obCert:
		why, mine := e.certs[it.ObID]
		if !mine {
			why = "is none of yours"
		}
		if why != "" && (e.last == 0 || it.ObID <= e.last) {
			e.warn(fmt.Sprintf("%s names certificate %d, which %s: until the device can fetch it, %s.", place, it.ObID, why, dropped))
		}
	}
	return nil
}

// blockProblem says what is wrong with the blocks of a script, "" when nothing
// is or when it has none. Names are posix.sh, windows.pwsh, windows.powershell
// and windows.cmd, in any case.
func blockProblem(script string) string {
	open := ""
	for line := range strings.Lines(script) {
		word, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.TrimSpace(name)
		switch {
		case word == "@@@BEGIN" && open != "":
			return fmt.Sprintf("begins the block %.40q before it ends %.40q: agents may not run it.", name, open)
		case word == "@@@BEGIN":
			if !slices.Contains([]string{"posix.sh", "windows.pwsh", "windows.powershell", "windows.cmd"}, strings.ToLower(name)) {
				return fmt.Sprintf("has a block %.40q, which no agent runs; blocks are posix.sh, windows.pwsh, windows.powershell and windows.cmd.", name)
			}
			open = name
		case word == "@@@END" && open == "":
			return "ends a block that it never began: agents may not run it."
		case word == "@@@END":
			open = ""
		}
	}
	if open != "" {
		return fmt.Sprintf("does not end the block %.40q with @@@END: agents may not run it.", open)
	}
	return ""
}
