package audit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"certharbor.dev/certharbor/internal/durable"
	"certharbor.dev/certharbor/internal/seal"
)

// stamp is what a file outside the database knows of the log: that it has this
// key, and how far nobody's chains had come. It is sealed under the master key.
type stamp struct {
	Key    string   `json:"key"` // fingerprint
	Chains []Anchor `json:"chains"`
}

const stampHead = "# What this node knows of the audit log of its database. Without it nothing is lost;\n" +
	"# with it the server notices that the log was removed or set back.\n"

func stampPlace() seal.Place { return seal.Place{Table: "audit.stamp", Row: 1, Column: "stamp"} }

// readStamp reads the file; nil without an error when there is none.
func readStamp(keys *seal.Keyring, path string) (*stamp, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no stamp is kept
	}
	text, err := os.ReadFile(path) //nolint:gosec // the settings name the folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // the first start of this node
	}
	if err != nil {
		return nil, lost("%v", err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	sealed, err := base64.StdEncoding.DecodeString(string(lines[len(lines)-1]))
	if err != nil {
		return nil, lost("the file %s is damaged", path)
	}
	opened, err := keys.Open(stampPlace(), sealed)
	if err != nil {
		return nil, lost("the file %s belongs to another master key, or is damaged", path)
	}
	s := &stamp{}
	if err := json.Unmarshal(opened, s); err != nil {
		return nil, lost("the file %s is damaged", path)
	}
	return s, nil
}

func (s *stamp) write(keys *seal.Keyring, path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	sealed, err := keys.Seal(stampPlace(), text)
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	return durable.WriteFile(path, []byte(stampHead+base64.StdEncoding.EncodeToString(sealed)+"\n"), 0o600)
}

// Keep compares nobody's chains with the stamp and then has the stamp know them
// as they are now. A log that was set back is an error in the server's log, each
// time, and leaves the stamp as it is; so does a chain that was changed.
func (l *Log) Keep(ctx context.Context) error {
	if l.stampPath == "" {
		return nil
	}
	l.keeping.Lock()
	defer l.keeping.Unlock()
	now, what, err := l.sinceStamp(ctx)
	if err != nil {
		return err
	}
	if what != "" {
		l.log.ErrorContext(ctx, "the audit log was set back or changed: "+what+"; if a backup was restored, run certharbor audit accept; otherwise find out who has changed the database")
		return nil
	}
	l.stamp = now
	if err := now.write(l.keys, l.stampPath); err != nil {
		return fmt.Errorf("write the stamp of the audit log: %w", err)
	}
	return nil
}

// sinceStamp gives the stamp of now, and what of the former one is gone.
func (l *Log) sinceStamp(ctx context.Context) (now *stamp, what string, err error) {
	now = &stamp{Key: fingerprint(l.key)}
	before := map[chain]Anchor{}
	if l.stamp != nil {
		for _, a := range l.stamp.Chains {
			before[a.chain()] = a
		}
	}
	for lane := range int64(lanes) {
		h, err := readHead(ctx, l.db.Reader(), chain{lane: lane})
		if err != nil {
			return nil, "", err
		}
		if h.seq < 0 || !h.holds(l.key) {
			return now, h.problem(0, "its head is missing, or was changed").Error(), nil
		}
		if a, ok := before[h.chain]; ok {
			if there, err := l.hasEntry(ctx, a, h); err != nil || !there {
				return now, h.problem(a.Seq, "is not the one that this node has seen").Error(), err
			}
		}
		if h.seq > 0 {
			now.Chains = append(now.Chains, Anchor{Lane: lane, Seq: h.seq, MAC: hexadecimal(h.mac)})
		}
	}
	return now, "", nil
}

// hasEntry reports whether the anchored entry is still in the chain with the
// head.
func (l *Log) hasEntry(ctx context.Context, a Anchor, h head) (bool, error) {
	if h.seq <= a.Seq {
		return h.seq == a.Seq && hexadecimal(h.mac) == a.MAC, nil
	}
	rows, err := readRows(ctx, l.db.Reader(), h.chain, a.Seq-1, a.Seq, 1)
	return len(rows) == 1 && hexadecimal(rows[0].mac) == a.MAC, err
}
