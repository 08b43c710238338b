package installs

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// command reads cmd and cmd_argv. Both stay empty when there is no command.
func (it checked) command() (shell string, argv []string, err error) {
	switch raw := bytes.TrimSpace(it.Cmd); {
	case len(raw) == 0 || string(raw) == "null":
	case raw[0] == '"':
		err = json.Unmarshal(raw, &shell)
	case raw[0] == '[':
		err = json.Unmarshal(raw, (*texts)(&argv))
	default:
		return "", nil, it.wrong("cmd", "must be a string or an array of strings")
	}
	if err != nil {
		return "", nil, it.wrong("cmd", "must be a string or an array of strings")
	}
	if len(it.CmdArgv) == 0 || slices.Equal(argv, it.CmdArgv) {
		return shell, argv, nil
	}
	if shell != "" || len(argv) > 0 {
		return "", nil, it.wrong("cmd_argv", "cannot stand beside cmd; use one of them")
	}
	return "", it.CmdArgv, nil
}

// checkCommand leaves the command in cmd alone: a string or an array.
func (it checked) checkCommand() error {
	shell, argv, err := it.command()
	if err != nil {
		return err
	}
	present := shell != "" || len(argv) > 0
	if present && it.ObType == obCert && it.Type != typeExec {
		return it.wrong("cmd", "does not apply to a cert item, where agents drop it; use after_update_script or an exec item")
	}
	if !present && it.Type == typeExec {
		return it.wrong("cmd", "is required on an exec item: a string for the shell, or an array of strings")
	}
	if len(argv) > maxList || (len(argv) > 0 && argv[0] == "") {
		return it.wrong("cmd", "must name a program and at most %d arguments", maxList-1)
	}
	for _, text := range append([]string{shell}, argv...) {
		if len(text) > maxText || strings.ContainsRune(text, 0) {
			return it.wrong("cmd", "must be at most 64 KiB of text without NUL")
		}
	}
	it.Cmd, it.CmdArgv = nil, nil
	switch {
	case shell != "":
		it.Cmd, err = encodeRaw(shell)
	case len(argv) > 0:
		it.Cmd, err = encodeRaw(argv)
	}
	return err
}

// encodeRaw encodes as encodeItems does, so that the canonical form is a fixed
// point.
func encodeRaw(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func (it checked) checkEnvironment() error {
	if it.ObType == obCert && it.Type != typeExec && it.RunAs != "" {
		return it.wrong("run_as", "does not apply to a cert item")
	}
	if it.ObType == obCert && it.Type != typeExec && len(it.Env) > 0 {
		return it.wrong("env", "does not apply to a cert item")
	}
	if len(it.Env) > maxList {
		return it.wrong("env", "holds too many variables; at most %d", maxList)
	}
	for name, value := range it.Env {
		if name == "" || len(name) > maxName || strings.Contains(name, "=") || hasControl(name) {
			return it.wrong("env", "has a bad name; names are not empty, at most %d bytes, without = and control characters", maxName)
		}
		if len(value) > maxText || strings.ContainsRune(value, 0) {
			return it.wrong("env", "values must be at most 64 KiB of text without NUL")
		}
	}
	return nil
}
