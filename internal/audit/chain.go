package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// lanes is how many chains nobody's log has. A process writes on at most 16
// connections at once.
const lanes = 16

// chain names one chain of entries.
type chain struct {
	user, lane int64
}

func (c chain) nobody() bool { return c.user == 0 }

// before is the order in which a transaction locks chains: nobody's last,
// because beginning a user's chain adds to one of them.
func (c chain) before(d chain) int {
	switch {
	case c == d:
		return 0
	case c.nobody() != d.nobody():
		if d.nobody() {
			return -1
		}
		return 1
	case c.user < d.user || c.user == d.user && c.lane < d.lane:
		return -1
	}
	return 1
}

// row is a row of audit_log.
type row struct {
	chain
	seq, at                                                 int64
	actor, action, object, detail, requestID, ip, userAgent string
	mac                                                     []byte
}

// head is the newest entry of a chain.
type head struct {
	chain
	seq  int64 // 0: there is none yet
	mac  []byte
	seal []byte
}

// The texts that keep the two kinds of MAC, and their versions, apart.
const (
	entryDomain = "certharbor audit entry 1"
	headDomain  = "certharbor audit head 1"
)

// sum is the MAC of the row after the one with the MAC previous. Every number
// takes eight bytes and every text carries its length, so that no two rows are
// encoded alike.
func (r *row) sum(key, previous []byte) []byte {
	buffer := make([]byte, 0, 512)
	buffer = appendText(buffer, entryDomain)
	buffer = appendNumbers(buffer, r.user, r.lane, r.seq, r.at)
	for _, text := range []string{r.actor, r.action, r.object, r.detail, r.requestID, r.ip, r.userAgent} {
		buffer = appendText(buffer, text)
	}
	return sum(key, appendText(buffer, string(previous)))
}

// sum is the seal of the head.
func (h *head) sum(key []byte) []byte {
	buffer := appendText(make([]byte, 0, 128), headDomain)
	buffer = appendNumbers(buffer, h.user, h.lane, h.seq)
	return sum(key, appendText(buffer, string(h.mac)))
}

// holds reports whether the seal is the one of this head.
func (h *head) holds(key []byte) bool { return hmac.Equal(h.seal, h.sum(key)) }

func sum(key, message []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(message)
	return mac.Sum(nil)
}

func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

func appendText(b []byte, text string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
	return append(b, text...)
}
