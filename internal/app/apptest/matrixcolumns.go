package apptest

import (
	"certharbor.dev/certharbor/internal/apikeys"
)

// Everything is what a key may be permitted at the most.
func Everything() (entries []map[string]any) {
	for _, s := range apikeys.Catalog() {
		entries = append(entries, Entry(s.Name, "*", s.Actions...))
	}
	return entries
}

func ActionsOf(scope string) []string {
	for _, s := range apikeys.Catalog() {
		if s.Name == scope {
			return s.Actions
		}
	}
	return nil
}
