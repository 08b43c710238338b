package main

import (
	"database/sql"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// halves are queries that find what one transaction writes together and is not
// there together. Each returns names of what is wrong.
var halves = map[string]string{
	"webhook without a secret":                  "SELECT id FROM service_webhooks WHERE length(secret) < 16",
	"webhook that the audit log does not have":  "SELECT id FROM service_webhooks w WHERE NOT EXISTS (SELECT 1 FROM audit_log WHERE action = 'webhook.create' AND object = 'webhook ' || w.id)",
	"deleted webhook that is there":             "SELECT id FROM service_webhooks w WHERE EXISTS (SELECT 1 FROM audit_log WHERE action = 'webhook.delete' AND object = 'webhook ' || w.id)",
	"account without a key":                     "SELECT id FROM acme_accounts WHERE account_key IS NULL OR length(account_key) < 16",
	"device without a refresh token":            "SELECT id FROM devices d WHERE NOT EXISTS (SELECT 1 FROM device_refresh_tokens r WHERE r.device_id = d.id AND r.session_no = d.session_no AND r.rotated_at IS NULL)",
	"device with two newest refresh tokens":     "SELECT device_id FROM device_refresh_tokens WHERE rotated_at IS NULL GROUP BY device_id, session_no HAVING COUNT(*) > 1",
	"device whose code was not used up":         "SELECT id FROM devices d WHERE NOT EXISTS (SELECT 1 FROM registration_codes c WHERE c.used_device_id = d.id AND c.used_at IS NOT NULL)",
	"used code with its text":                   "SELECT id FROM registration_codes WHERE used_at IS NOT NULL AND code_sealed IS NOT NULL",
	"install-config without its version":        "SELECT id FROM install_configs c WHERE NOT EXISTS (SELECT 1 FROM install_config_versions v WHERE v.device_id = c.device_id AND v.version = c.version AND v.installs = c.installs)",
	"install-config with a gap in its versions": "SELECT id FROM install_configs c WHERE version <> (SELECT COUNT(*) FROM install_config_versions v WHERE v.device_id = c.device_id)",
	"install-config without its signal":         "SELECT id FROM install_configs c WHERE NOT EXISTS (SELECT 1 FROM feed_entries e WHERE e.device_id = c.device_id AND e.type = 'install.updated' AND json_extract(e.ref, '$.version') = c.version)",
	"certificate without its materials":         "SELECT id FROM certificates c WHERE NOT EXISTS (SELECT 1 FROM certificate_materials m WHERE m.cert_id = c.id)",
	"imported certificate without its key":      "SELECT cert_id FROM certificate_materials m JOIN certificates c ON c.id = m.cert_id WHERE c.origin = 'import' AND (m.key_ciphertext IS NULL OR m.data_key IS NULL)",
	"assignment without a wrap of this key": `SELECT a.cert_id FROM certificate_assignments a JOIN certificate_materials m ON m.cert_id = a.cert_id
		WHERE m.key_version > 0 AND NOT EXISTS (SELECT 1 FROM certificate_wraps w WHERE w.device_id = a.device_id AND w.cert_id = a.cert_id AND w.key_version = m.key_version)`,
	"assignment without its signal": `SELECT cert_id FROM certificate_assignments a
		WHERE NOT EXISTS (SELECT 1 FROM feed_entries e WHERE e.device_id = a.device_id AND e.type = 'cert.updated' AND json_extract(e.ref, '$.cert_id') = a.cert_id)`,
	"stream whose head is not its newest entry": "SELECT device_id FROM feed_heads h WHERE ms <> (SELECT MAX(ms) FROM feed_entries e WHERE e.device_id = h.device_id)",
	"foreign key that does not hold":            "SELECT \"table\" || ' ' || rowid FROM pragma_foreign_key_check",
}

// checkDatabase reads the database of a server that is not running.
func checkDatabase(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=query_only(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, problem := range rows(t, db, "PRAGMA integrity_check") {
		if problem != "ok" {
			t.Errorf("integrity_check: %s", problem)
		}
	}
	for what, query := range halves {
		if found := rows(t, db, query); len(found) > 0 {
			t.Errorf("%s: %v", what, found)
		}
	}
}

// rows returns the first column.
func rows(t *testing.T, db *sql.DB, query string) (list []string) {
	t.Helper()
	result, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer result.Close()
	for result.Next() {
		var text string
		if err := result.Scan(&text); err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
