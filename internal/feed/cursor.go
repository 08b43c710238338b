package feed

import (
	"cmp"
	"strconv"
	"strings"

	"certharbor.dev/certharbor/internal/fault"
)

// Cursor is the id of an entry. The zero value, 0-0, stands before every entry.
type Cursor struct {
	MS  int64 // Unix ms, the signal's ts_ms
	Seq int64 // number of the entry; the first of a stream is random
}

// foreign tells that c was read from text that cannot be an id: no entry has it.
func (c Cursor) foreign() bool { return c.MS < 0 }

// maxCursor bounds a cursor in bytes.
const maxCursor = 64

// String gives <ms>-<seq>, which needs no encoding in a URL.
func (c Cursor) String() string {
	return strconv.FormatInt(c.MS, 10) + "-" + strconv.FormatInt(c.Seq, 10)
}

// Compare orders cursors as their entries are ordered: -1, 0 or 1.
func (c Cursor) Compare(other Cursor) int {
	return cmp.Or(cmp.Compare(c.MS, other.MS), cmp.Compare(c.Seq, other.Seq))
}

// ParseCursor reads <ms>-<seq>: decimal, without signs or leading zeros, each
// within 63 bits. Other text of at most 64 printable ASCII characters is a
// cursor that no stream knows, so that its agent is told to start over; an agent
// that kept such text would send it for ever. The rest is 400/5000.
func ParseCursor(text string) (Cursor, error) {
	if len(text) > maxCursor || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Cursor{}, fault.Invalid("cursor", "must be the cursor of an earlier answer, at most %d printable ASCII characters; leave it out to start over", maxCursor)
	}
	ms, seq, found := strings.Cut(text, "-")
	c := Cursor{}
	if found {
		c.MS, found = parsePart(ms)
	}
	if found {
		c.Seq, found = parsePart(seq)
	}
	if !found {
		return Cursor{MS: -1}, nil
	}
	return c, nil
}

func parsePart(s string) (int64, bool) {
	if len(s) > 19 || (len(s) > 1 && s[0] == '0') {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// requested is the cursor of a request: If-None-Match (an entity tag, strong,
// weak or without its quotes) wins over the query parameter; neither means
// from the oldest retained entry.
func requested(ifNoneMatch, cursor string) (Cursor, error) {
	if tag := strings.TrimSpace(ifNoneMatch); tag != "" {
		tag = strings.TrimPrefix(tag, "W/")
		if len(tag) >= 2 && tag[0] == '"' && tag[len(tag)-1] == '"' {
			tag = tag[1 : len(tag)-1]
		}
		cursor = tag
	} else if cursor == "" {
		return Cursor{}, nil
	}
	return ParseCursor(cursor)
}
