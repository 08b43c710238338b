package audit

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Anchor is the newest entry of a chain as it was at one time. Kept where
// nobody who can write to the database can reach, it shows that the chain has
// not been set back since.
type Anchor struct {
	UserID, Lane, Seq int64
	MAC               string // hexadecimal
}

func (a Anchor) chain() chain { return chain{a.UserID, a.Lane} }

// FormatAnchors gives one anchor a line: user, lane, number, MAC.
func FormatAnchors(anchors []Anchor) []byte {
	var text bytes.Buffer
	for _, a := range anchors {
		fmt.Fprintln(&text, a.UserID, a.Lane, a.Seq, a.MAC)
	}
	return text.Bytes()
}

// ReadAnchors reads what FormatAnchors gave. The error names the line.
func ReadAnchors(r io.Reader) (anchors []Anchor, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var a Anchor
		fields := strings.Fields(lines.Text())
		if len(fields) != 4 {
			return nil, fmt.Errorf("line %d: want user, lane, number and MAC, as audit verify --save writes them", n)
		}
		for i, into := range []*int64{&a.UserID, &a.Lane, &a.Seq} {
			if *into, err = strconv.ParseInt(fields[i], 10, 64); err != nil {
				return nil, fmt.Errorf("line %d: %q is not a number", n, fields[i])
			}
		}
		a.MAC = fields[3]
		anchors = append(anchors, a)
	}
	return anchors, lines.Err()
}

func hexadecimal(mac []byte) string { return hex.EncodeToString(mac) }

// userOf reads the object of an entry that begins a chain.
func userOf(object string) (int64, bool) {
	text, ok := strings.CutPrefix(object, "user ")
	id, err := strconv.ParseInt(text, 10, 64)
	return id, ok && err == nil
}
