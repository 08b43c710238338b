package install

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// check gives the reason why an item cannot be carried out as written, or nil.
func (e *Engine) check(it *Item) error {
	if it.TimeoutMS < 0 {
		return fmt.Errorf("timeout_ms is %d: it must not be negative", it.TimeoutMS)
	}
	switch it.Type {
	case typeExec:
		return checkExec(it)
	case typeCopy, typeImportCA:
		return e.checkCopy(it)
	}
	return fmt.Errorf("type %q is not known to this agent (copy, exec, import_ca): update the agent", it.Type)
}

func checkExec(it *Item) error {
	if it.Cmd.empty() {
		return errors.New("cmd is empty: give a shell text or an array of arguments")
	}
	if len(it.Cmd.Argv) > 0 && it.Cmd.Argv[0] == "" {
		return errors.New("cmd[0] is empty: give the program to run")
	}
	for name, value := range it.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("env name %q cannot be set", name)
		}
	}
	return nil
}

func (e *Engine) checkCopy(it *Item) error {
	names := []string{"private.key", "certificate.pem", "chain.pem", "fullchain.pem", "certificate.der", "bundle.pfx", "meta.json"}
	switch {
	case it.ObType == "ca":
		names = []string{"ca.pem", "ca.der", "meta.json"}
	case it.ObType != "cert" || it.Type == typeImportCA:
		return fmt.Errorf("ob_type %q does not go with type %q", it.ObType, it.Type)
	}
	if it.ObID <= 0 {
		return fmt.Errorf("ob_id is %d: it must name a %s", it.ObID, it.ObType)
	}
	if it.Type == typeImportCA {
		if e.TrustDir == "" {
			return errors.New("this agent has no trust folder: start it with --trust-dir, for example /usr/local/share/ca-certificates")
		}
		return nil
	}
	if len(it.From) == 0 || (len(it.To) != 0 && len(it.To) != len(it.From)) {
		return fmt.Errorf("from has %d entries and to has %d: they must be equally many", len(it.From), len(it.To))
	}
	for i, from := range it.From {
		if !slices.Contains(names, from) {
			return fmt.Errorf("from[%d] %q is not one of %s", i, from, strings.Join(names, ", "))
		}
	}
	for i, to := range it.To {
		if err := e.checkTarget(to); err != nil {
			return fmt.Errorf("to[%d] %q %w", i, to, err)
		}
	}
	return nil
}

// checkTarget lets an absolute, plain path pass that is not the agent's own.
func (e *Engine) checkTarget(to string) error {
	if to == "" {
		return nil
	}
	if strings.ContainsFunc(to, unicode.IsControl) {
		return errors.New("holds a control character")
	}
	if !filepath.IsAbs(to) {
		return errors.New("is not an absolute path")
	}
	if filepath.Clean(to) != to || to == "/" {
		return errors.New("is not a plain file path: no . or .. elements, no double or trailing slash")
	}
	if within(e.State.Path(), to) {
		return errors.New("lies in the agent's own state folder")
	}
	if e.ours(to) {
		return errors.New("is a file that decides what this agent is or whom it asks: certificates go elsewhere")
	}
	return nil
}

func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// target is one file an item installs.
type target struct {
	from, to string
}

func (e *Engine) targets(it *Item) []target {
	if it.Type == typeImportCA {
		// The name update-ca-certificates looks for ends in .crt.
		return []target{{"ca.pem", filepath.Join(e.TrustDir, fmt.Sprintf("certharbor-ca-%d.crt", it.ObID))}}
	}
	var list []target
	for i, to := range it.To {
		if to != "" {
			list = append(list, target{it.From[i], to})
		}
	}
	return list
}

// split says whether an item delivers only a part of what must fit together.
func split(list []target) bool {
	var key, cert, chain bool
	for _, t := range list {
		switch t.from {
		case "private.key":
			key = true
		case "certificate.pem", "fullchain.pem", "certificate.der":
			cert = true
		case "chain.pem":
			chain = true
		}
	}
	return key != cert || (chain && !cert)
}
