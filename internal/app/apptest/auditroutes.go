package apptest

import (
	"crypto/rand"
	"fmt"
	"strconv"
)

func FreshPublicID() string {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x-0000-0000-0000-000000000000", b)
}

// Make posts as the resident and keeps the id of what was made.
func (a *Attempt) Make(path, parameter string, body any) {
	a.W.T.Helper()
	var made struct{ ID int64 }
	a.R.Do("POST", path, body, 201).Data(a.W.T, &made)
	a.Ids[parameter] = strconv.FormatInt(made.ID, 10)
}
