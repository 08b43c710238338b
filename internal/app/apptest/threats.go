package apptest

import (
	"fmt"
	"strings"
	"testing"
)

// World is who there is, what they are, and how they signed in.
func (w *World) World(t *testing.T) string {
	t.Helper()
	var all []string
	for _, query := range []string{"SELECT id, email, status, roles FROM users ORDER BY id", "SELECT DISTINCT user_id, amr, acr FROM sessions ORDER BY user_id, acr, amr", "SELECT id, user_id FROM acme_accounts WHERE user_id = 1 ORDER BY id", "SELECT id, user_id, public_id FROM devices ORDER BY id"} {
		for _, row := range Rows(t, w.Database(), query) {
			all = append(all, fmt.Sprint(row...))
		}
	}
	return strings.Join(all, "\n")
}
