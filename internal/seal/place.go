package seal

import (
	"crypto/sha256"
	"encoding/binary"
)

// Place names the one table cell that a sealed secret belongs to. A blob opens
// only at the place it was sealed for, so nobody who can write to the database
// can move one user's secret into another user's row.
type Place struct {
	Table  string // table name
	Row    int64  // primary key of the row
	Column string // column name
}

// encode gives bytes that no other place gives: both texts carry their length.
func (p Place) encode() []byte {
	out := make([]byte, 0, 16+len(p.Table)+len(p.Column))
	out = binary.BigEndian.AppendUint32(out, uint32(len(p.Table)))
	out = append(out, p.Table...)
	out = binary.BigEndian.AppendUint64(out, uint64(p.Row))
	out = binary.BigEndian.AppendUint32(out, uint32(len(p.Column)))
	return append(out, p.Column...)
}

// digest is the hint stored in the blob's header. It hides nothing and protects
// nothing: the binding is the associated data.
func (p Place) digest() [placeDigestSize]byte {
	sum := sha256.Sum256(p.encode())
	return [placeDigestSize]byte(sum[:placeDigestSize])
}
