package installs

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"certharbor.dev/certharbor/internal/fault"
)

const (
	maxItems    = 1000
	maxInstalls = 1 << 20    // canonical JSON in bytes
	maxName     = 200        // ids, tags, users, names, in bytes
	maxList     = 256        // files, arguments, variables of one item
	maxText     = 64 << 10   // a command, an argument, a value, in bytes
	maxTimeout  = 86_400_000 // ms, a day
)

// fileNames are what an item may take from an object (wire.md 7.2).
func fileNames(obType string) []string {
	if obType == obCA {
		return []string{"ca.pem", "ca.der", "meta.json"}
	}
	return []string{"private.key", "certificate.pem", "chain.pem", "fullchain.pem", "certificate.der", "bundle.pfx", "meta.json"}
}

// normalise checks items by the rules of wire.md 7.2 and decisions.md 8.8 and
// gives them in canonical form together with their JSON. The argument is not
// changed. Faults are 5000 and name item and member.
func normalise(given []Item) ([]Item, string, error) {
	if len(given) > maxItems {
		return nil, "", fault.Invalid("installs", "takes at most %d items", maxItems)
	}
	items := slices.Clone(given)
	if items == nil {
		items = []Item{}
	}
	if err := fillIDs(items); err != nil {
		return nil, "", err
	}
	for i := range items {
		if err := (checked{&items[i], i}).all(); err != nil {
			return nil, "", err
		}
	}
	if err := checkOrder(items); err != nil {
		return nil, "", err
	}
	text, err := encodeItems(items)
	if err != nil {
		return nil, "", err
	}
	if len(text) > maxInstalls {
		return nil, "", fault.Invalid("installs", "is larger than 1 MiB")
	}
	if !utf8.ValidString(text) { // verify is kept raw, and PostgreSQL's text is UTF-8
		return nil, "", fault.Invalid("installs", "holds text that is not UTF-8")
	}
	return items, text, nil
}

// fillIDs requires unique ids and gives "step-<n>", by position, to items
// without one, so that the same items always get the same ids.
func fillIDs(items []Item) error {
	taken := make(map[string]bool, len(items))
	for i := range items {
		it := checked{&items[i], i}
		if it.ID == "" {
			continue
		}
		if err := it.line("id", it.ID); err != nil {
			return err
		}
		if taken[it.ID] {
			return it.wrong("id", "is used twice; ids are unique within the configuration")
		}
		taken[it.ID] = true
	}
	for i := range items {
		for n := i + 1; items[i].ID == ""; n++ {
			if id := fmt.Sprintf("step-%d", n); !taken[id] {
				items[i].ID, taken[id] = id, true
			}
		}
	}
	return nil
}

// checked is an item under examination.
type checked struct {
	*Item
	index int
}

func (it checked) wrong(member, format string, args ...any) error {
	place := fmt.Sprintf("installs[%d].%s", it.index, member)
	if it.ID != "" {
		place += fmt.Sprintf(" (item %.100q)", it.ID)
	}
	return fault.Invalid(place, format, args...)
}

// line requires one line of text that is not too long.
func (it checked) line(member, value string) error {
	if len(value) > maxName || hasControl(value) {
		return it.wrong(member, "must be one line of at most %d bytes without control characters", maxName)
	}
	return nil
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func (it checked) all() error {
	for _, check := range []func() error{it.checkNames, it.checkObject, it.checkFiles, it.checkCommand, it.checkEnvironment} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (it checked) checkNames() error {
	if it.Enabled == nil {
		enabled := true
		it.Enabled = &enabled
	}
	if err := it.line("ob_name", it.ObName); err != nil {
		return err
	}
	if err := it.line("run_as", it.RunAs); err != nil {
		return err
	}
	for _, tag := range it.Tags {
		if err := it.line("tags", tag); err != nil {
			return err
		}
	}
	if len(it.Tags) > maxList {
		return it.wrong("tags", "are too many; at most %d", maxList)
	}
	if it.TimeoutMS < 0 || it.TimeoutMS > maxTimeout {
		return it.wrong("timeout_ms", "must be 0 to %d", maxTimeout)
	}
	return nil
}

func (it checked) checkObject() error {
	switch it.ObType {
	case "", obCert, obCA:
	default:
		return it.wrong("ob_type", "must be cert or ca")
	}
	if it.ObID < 0 {
		return it.wrong("ob_id", "must be a whole number above 0")
	}
	switch it.Type {
	case typeExec:
		return nil
	case typeCopy:
		if it.ObType == "" {
			return it.wrong("ob_type", "is required: cert or ca")
		}
	case typeImportCA:
		if it.ObType != obCA {
			return it.wrong("ob_type", "must be ca on an import_ca item")
		}
	default:
		return it.wrong("type", "must be copy, exec or import_ca")
	}
	if it.ObID == 0 {
		return it.wrong("ob_id", "is required: the id of the %s, a whole number above 0", it.ObType)
	}
	return nil
}

// checkFiles keeps an import_ca item's empty to as it came; on a copy item
// absent and [] mean the same and are served as [].
func (it checked) checkFiles() error {
	if it.Type == typeExec {
		if len(it.From) > 0 || len(it.To) > 0 {
			return it.wrong("from", "and to do not apply to an exec item")
		}
		it.From, it.To = nil, nil
		return nil
	}
	if len(it.From) == 0 || len(it.From) > maxList {
		return it.wrong("from", "must name 1 to %d files of: %s", maxList, strings.Join(fileNames(it.ObType), ", "))
	}
	for _, name := range it.From {
		if !slices.Contains(fileNames(it.ObType), name) {
			return it.wrong("from", "takes only: %s", strings.Join(fileNames(it.ObType), ", "))
		}
	}
	if it.Type == typeImportCA && (len(it.From) != 1 || it.From[0] != "ca.pem") {
		return it.wrong("from", `must be ["ca.pem"] on an import_ca item`)
	}
	if it.Type == typeCopy && it.To == nil {
		it.To = []string{}
	}
	if len(it.To) > 0 && len(it.To) != len(it.From) {
		return it.wrong("to", "must have as many entries as from (%d), or none", len(it.From))
	}
	for _, path := range it.To {
		if problem := pathProblem(path); problem != "" {
			return it.wrong("to", "%s", problem)
		}
	}
	return nil
}
