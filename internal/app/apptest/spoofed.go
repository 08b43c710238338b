package apptest

import (
	"maps"
	"net/http"
)

// With adds headers to those of the caller.
func (c *Caller) With(more http.Header) *Caller {
	all := c.Header.Clone()
	maps.Copy(all, more)
	return &Caller{P: c.P, Header: all, UserID: c.UserID}
}
