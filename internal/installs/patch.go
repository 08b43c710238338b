package installs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"certharbor.dev/certharbor/internal/fault"
)

// Changes is the body of install-config-update (wire.md section 10).
type Changes struct {
	Patches []Patch
	Script  Script
}

// Script is a change of after_update_script: Set says whether there is one, a
// nil Text clears the script.
type Script struct {
	Set  bool
	Text *string
}

// maxScript bounds the script in bytes.
const maxScript = 256 << 10

func (s Script) check() error {
	if s.Text != nil && len(*s.Text) > maxScript {
		return fault.Invalid("after_update_script", "is larger than 256 KiB")
	}
	return nil
}

// Patch changes the items that its ob_type, ob_id and, if given, id match.
// Absent members change nothing.
type Patch struct {
	ObType  string
	ObID    int64
	ID      string
	Type    string
	Enabled *bool
	To      *Targets
	Cmd     json.RawMessage
	Argv    []string
	Timeout int64
	Env     map[string]string
}

// Targets is the to of a patch: a list, or one text that is a file when the
// item takes one, and a folder when it takes several (decisions.md 7.10).
type Targets struct {
	One  bool
	Text string
	List []string
}

// ParseChanges reads an array of patches or an object with patches,
// after_update_script or both. Other members are ignored.
func ParseChanges(body []byte) (Changes, error) {
	var c Changes
	var patches []json.RawMessage
	switch body = bytes.TrimSpace(body); {
	case bytes.HasPrefix(body, []byte("[")):
		if err := json.Unmarshal(body, &patches); err != nil {
			return c, fault.Invalid("body", "is not valid JSON")
		}
	case bytes.HasPrefix(body, []byte("{")):
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil {
			return c, fault.Invalid("body", "is not valid JSON")
		}
		if _, err := member(object, "patches", &patches); err != nil {
			return c, fault.Invalid("patches", "must be an array of patches")
		}
		if raw, ok := object["after_update_script"]; ok {
			c.Script.Set = true
			if err := json.Unmarshal(raw, &c.Script.Text); err != nil {
				return c, fault.Invalid("after_update_script", "must be a string or null")
			}
		}
	default:
		return c, fault.Invalid("body", "must be an array of patches, or an object with patches, after_update_script or both")
	}
	if len(patches) == 0 && !c.Script.Set {
		return c, fault.Invalid("patches", "must hold at least one patch, unless after_update_script is set")
	}
	if len(patches) > maxItems {
		return c, fault.Invalid("patches", "takes at most %d patches", maxItems)
	}
	for i, raw := range patches {
		p, err := parsePatch(raw, fmt.Sprintf("patches[%d]", i))
		if err != nil {
			return c, err
		}
		c.Patches = append(c.Patches, p)
	}
	return c, c.Script.check()
}

// member decodes one member; null counts as absent. Names match exactly, which
// decoding into a struct would not do.
func member(object map[string]json.RawMessage, name string, v any) (present bool, err error) {
	raw, ok := object[name]
	if !ok || string(raw) == "null" {
		return false, nil
	}
	return true, json.Unmarshal(raw, v)
}

// texts is an array of strings in which null is no string.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(raw []byte) error {
	var parts []*string
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	*t = make([]string, len(parts))
	for i, part := range parts {
		if part == nil {
			return errNull
		}
		(*t)[i] = *part
	}
	return nil
}

var errNull = errors.New("null is not a string")

func parsePatch(raw json.RawMessage, place string) (Patch, error) {
	var p Patch
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return p, fault.Invalid(place, "must be an object")
	}
	for _, m := range []struct {
		name, want string
		v          any
	}{
		{"ob_type", "a string", &p.ObType},
		{"ob_id", "a whole number", &p.ObID},
		{"id", "a string", &p.ID},
		{"type", "a string", &p.Type},
		{"enabled", "true or false", &p.Enabled},
		{"cmd", "a string or an array of strings", &p.Cmd},
		{"cmd_argv", "an array of strings", (*texts)(&p.Argv)},
		{"timeout_ms", "a whole number", &p.Timeout},
		{"env", "an object of strings", &p.Env},
	} {
		if _, err := member(object, m.name, m.v); err != nil {
			return p, fault.Invalid(place+"."+m.name, "must be %s", m.want)
		}
	}
	if empty := string(p.Cmd); empty == `""` || empty == "[]" {
		p.Cmd = nil
	}
	if p.ObType == "" {
		return p, fault.Invalid(place+".ob_type", "is required: the ob_type of the step to change")
	}
	if p.ObID <= 0 {
		return p, fault.Invalid(place+".ob_id", "is required: the ob_id of the step to change, a whole number above 0")
	}
	return p, p.parseTargets(object, place)
}

func (p *Patch) parseTargets(object map[string]json.RawMessage, place string) error {
	var text string
	if present, err := member(object, "to", &text); !present || err == nil {
		if present {
			p.To = &Targets{One: true, Text: text}
		}
		return nil
	}
	list := []string{}
	if _, err := member(object, "to", (*texts)(&list)); err != nil {
		return fault.Invalid(place+".to", "must be a string or an array of strings")
	}
	p.To = &Targets{List: list}
	return nil
}
