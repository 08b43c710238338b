package install

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Config is the install-config as GET /apiv1/devices/self/install-config
// serves it (wire.md 7.2).
type Config struct {
	Version           int64  `json:"version"`
	Installs          []Item `json:"installs"`
	AfterUpdateScript string `json:"after_update_script"` // null = ""
}

// maxItems is several times what the server takes.
const maxItems = 4000

// The types of items.
const (
	typeCopy     = "copy"
	typeExec     = "exec"
	typeImportCA = "import_ca"
)

// Item is one step of a Config. Empty members count as absent.
type Item struct {
	ID              string            `json:"id"`
	Type            string            `json:"type"`
	Enabled         *bool             `json:"enabled"` // nil = true
	ContinueOnError bool              `json:"continue_on_error"`
	DependsOn       []string          `json:"depends_on"`
	ObType          string            `json:"ob_type"`
	ObID            int64             `json:"ob_id"`
	ObName          string            `json:"ob_name"`
	From            []string          `json:"from"`
	To              []string          `json:"to"`
	Cmd             Command           `json:"cmd"`
	CmdArgv         []string          `json:"cmd_argv"`
	TimeoutMS       int64             `json:"timeout_ms"`
	RunAs           string            `json:"run_as"`
	Env             map[string]string `json:"env"`
	Verify          Verify            `json:"verify"`
}

// Command is a shell text or an argv; both empty means none.
type Command struct {
	Shell string   `json:"shell,omitempty"`
	Argv  []string `json:"argv,omitempty"`
}

func (c Command) empty() bool { return c.Shell == "" && len(c.Argv) == 0 }

// UnmarshalJSON takes a string (shell) or an array of strings (argv), and the
// object that MarshalJSON's default writes into the journal.
func (c *Command) UnmarshalJSON(data []byte) error {
	*c = Command{}
	if json.Unmarshal(data, &c.Shell) == nil {
		return nil
	}
	if json.Unmarshal(data, &c.Argv) == nil {
		return nil
	}
	type plain Command
	if err := json.Unmarshal(data, (*plain)(c)); err != nil {
		return fmt.Errorf("cmd is neither a string nor an array of strings: %w", err)
	}
	return nil
}

// Verify says how to see that an item has worked.
type Verify struct {
	TLS *TLSCheck `json:"tls"`
}

// TLSCheck asks for a handshake that shows the installed certificate.
type TLSCheck struct {
	Address    string `json:"address"`     // host:port
	ServerName string `json:"server_name"` // SNI; "" = the host of Address
}

// Parse reads a served install-config.
func Parse(data []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("install-config is not as the API says: %w", err)
	}
	if len(c.Installs) > maxItems {
		return Config{}, fmt.Errorf("install-config has %d items, this agent takes %d: update the agent", len(c.Installs), maxItems)
	}
	for i := range c.Installs {
		it := &c.Installs[i]
		if it.ID == "" {
			it.ID = "#" + strconv.Itoa(i+1)
		}
		if it.Cmd.empty() && len(it.CmdArgv) > 0 {
			it.Cmd.Argv = it.CmdArgv
		}
	}
	return c, nil
}

func (it *Item) enabled() bool { return it.Enabled == nil || *it.Enabled }

// copies says whether the item puts files in place.
func (it *Item) copies() bool { return it.Type == typeCopy || it.Type == typeImportCA }

// Ref names the certificate or CA an item copies from.
type Ref struct {
	Kind string // cert or ca
	ID   int64
}

// String gives for example "certificate 5".
func (r Ref) String() string {
	if r.Kind == "cert" {
		return fmt.Sprintf("certificate %d", r.ID)
	}
	return fmt.Sprintf("CA %d", r.ID)
}

func (it *Item) ref() Ref { return Ref{Kind: it.ObType, ID: it.ObID} }
