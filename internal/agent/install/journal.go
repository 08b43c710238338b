package install

import "certharbor.dev/certharbor/internal/agent/folder"

const journalName = "journal.json"

// The phases of a transaction; see the package comment.
const (
	phaseStaging    = "staging"
	phaseCommitting = "committing"
	phaseRestoring  = "restoring"
	phaseFinishing  = "finishing"
)

// maxStarts is how often a transaction is taken up again before its commands
// are believed to kill the agent, and the former files are restored.
const maxStarts = 3

// journal is a transaction under way, as it stands on disk.
type journal struct {
	Phase  string  `json:"phase"`
	Starts int     `json:"starts"` // how often a new process took it up
	Next   int     `json:"next"`   // first step that may not be done
	Steps  []*step `json:"steps"`
	// FailedAt is the step that failed and Error why; restoring only.
	FailedAt int    `json:"failed_at,omitempty"`
	Error    string `json:"error,omitempty"`
	Goal     string `json:"goal"`             // digest of what this is to reach
	Script   string `json:"script,omitempty"` // due when files have changed

	open map[string]*folder.Folder // by path, while this process works on it
}

// step is one item's part. Files and Process exclude each other.
type step struct {
	node            int       // in the graph, while it is known
	ItemID          string    `json:"item_id"`
	Files           []change  `json:"files,omitempty"`
	Process         *process  `json:"process,omitempty"`
	ContinueOnError bool      `json:"continue_on_error,omitempty"`
	Check           *TLSCheck `json:"check,omitempty"`
	CheckMS         int64     `json:"check_ms,omitempty"`
	Serials         []string  `json:"serials,omitempty"` // that Check may see
	Outcome         ItemState `json:"outcome"`           // to record on success
	Failed          string    `json:"failed,omitempty"`  // went on in spite of this
}

// change is one file of a step.
type change struct {
	To     string `json:"to"`
	Staged string `json:"staged"` // new content, beside To
	Former string `json:"former"` // second name of the present file
	HadOne bool   `json:"had_one"`
	SHA256 string `json:"sha256"` // of the new content

	Left string `json:"left,omitempty"` // why it could not be undone or ended

	data []byte
	mode uint32
}

func (e *Engine) saveJournal(j *journal) error { return e.State.Write(journalName, j) }
func (e *Engine) dropJournal() error           { return e.State.Remove(journalName) }

func (j *journal) changesFiles() bool {
	for _, s := range j.Steps {
		if len(s.Files) > 0 {
			return true
		}
	}
	return false
}
