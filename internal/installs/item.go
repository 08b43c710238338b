package installs

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Item is one step of an install configuration. Members that do not apply are
// absent; empty ones count as absent.
type Item struct {
	ID              string                     `json:"id,omitempty" doc:"Unique within the configuration; made when absent."`
	Type            string                     `json:"type" doc:"copy, exec or import_ca."`
	Enabled         *bool                      `json:"enabled,omitempty" doc:"Default true."`
	ContinueOnError bool                       `json:"continue_on_error,omitempty"`
	DependsOn       []string                   `json:"depends_on,omitempty" doc:"Ids of items that come before."`
	Tags            []string                   `json:"tags,omitempty"`
	ObType          string                     `json:"ob_type,omitempty" doc:"cert or ca."`
	ObID            int64                      `json:"ob_id,omitempty" doc:"Id of the certificate or CA."`
	ObName          string                     `json:"ob_name,omitempty"`
	From            []string                   `json:"from,omitempty" doc:"Names of the files to take, for example fullchain.pem."`
	To              []string                   `json:"to,omitzero" doc:"Absolute targets, as many as from; \"\" skips that file, [] the item."`
	Cmd             json.RawMessage            `json:"cmd,omitempty" doc:"A string for the shell, or an array of strings to start directly."`
	CmdArgv         []string                   `json:"cmd_argv,omitempty" doc:"Accepted; served in cmd."`
	TimeoutMS       int64                      `json:"timeout_ms,omitempty"`
	RunAs           string                     `json:"run_as,omitempty"`
	Env             map[string]string          `json:"env,omitempty"`
	Verify          map[string]json.RawMessage `json:"verify,omitempty" doc:"Kept as it is."`
}

// The values of Item.Type and Item.ObType.
const (
	typeCopy     = "copy"
	typeExec     = "exec"
	typeImportCA = "import_ca"
	obCert       = "cert"
	obCA         = "ca"
)

// encodeItems gives the canonical JSON of normalised items.
func encodeItems(items []Item) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(items); err != nil {
		return "", fmt.Errorf("encode install items: %w", err)
	}
	return string(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

func decodeItems(text string) ([]Item, error) {
	items := []Item{}
	if err := json.Unmarshal([]byte(text), &items); err != nil {
		return nil, fmt.Errorf("decode install items: %w", err)
	}
	return items, nil
}

// digest gives installs_hash: base64 of the SHA-256 of the canonical JSON.
func digest(installs string) string {
	sum := sha256.Sum256([]byte(installs))
	return base64.StdEncoding.EncodeToString(sum[:])
}
