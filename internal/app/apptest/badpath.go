package apptest

import (
	"regexp"
	"slices"
	"strings"
)

// Reaches reports whether a route takes the method at the path: "history" is
// a word of its own for GET, but an id for DELETE.
func (w *World) Reaches(method, path string) bool {
	return slices.ContainsFunc(w.Operations, func(o *Operation) bool {
		pattern := parameterPattern.ReplaceAllString(strings.ReplaceAll(o.Path, ".", `\.`), "[^/]+")
		return o.Method == method && regexp.MustCompile("^"+pattern+"$").MatchString(path)
	})
}
