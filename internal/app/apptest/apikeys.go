package apptest

import (
	"fmt"
	"log/slog"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// APIKey makes requests with an API key.
type APIKey struct {
	*Caller
	ID    int64
	Token string
}

// Entry is a permission entry as api.md writes it.
func Entry(scope string, object any, actions ...string) map[string]any {
	return map[string]any{"obtype": scope, "obid": fmt.Sprint(object), "actions": actions}
}

// APIKey makes a key that lives an hour.
func (c *Caller) APIKey(entries ...map[string]any) *APIKey {
	c.P.T.Helper()
	k := &APIKey{}
	c.Do("POST", "/apiv1/me/apikeys", map[string]any{"name": "ci", "expires_in_seconds": 3600, "permissions": entries}, 201).Data(c.P.T, k)
	k.Caller = c.P.Bearer(k.Token)
	return k
}

func (k *APIKey) Path() string { return fmt.Sprintf("/apiv1/me/apikeys/%d", k.ID) }

// Database opens the program's database as another process would.
func (p *Program) Database() *sqldb.DB {
	p.T.Helper()
	db, err := app.OpenDatabase(p.T.Context(), p.Config, slog.New(slog.DiscardHandler))
	if err != nil {
		p.T.Fatal(err)
	}
	p.T.Cleanup(func() { _ = db.Close() })
	return db
}

// Audited are the actions that the audit log has of the key, in their order,
// without what it was refused.
func (p *Program) Audited(k *APIKey) (actions []string) {
	p.T.Helper()
	rows, err := p.Database().Reader().QueryContext(p.T.Context(), "SELECT action FROM audit_log WHERE actor = $1 AND action <> 'access.refused' ORDER BY seq", fmt.Sprintf("key %d", k.ID))
	if err != nil {
		p.T.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var action string
		if err := rows.Scan(&action); err != nil {
			p.T.Fatal(err)
		}
		actions = append(actions, action)
	}
	if err := rows.Err(); err != nil {
		p.T.Fatal(err)
	}
	return actions
}

// Same fails unless both answers have the status and are equal byte by byte.
func Same(t *testing.T, what string, a, b *Answer, status int) {
	t.Helper()
	if a.Status != status || b.Status != status || string(a.Body) != string(b.Body) {
		t.Errorf("%s: %d %s\nand %d %s, want %d twice", what, a.Status, a.Body, b.Status, b.Body, status)
	}
}
