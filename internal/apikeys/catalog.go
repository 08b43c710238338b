package apikeys

// PermissionScope is one line of the catalog: a kind of objects and what can be
// permitted on them.
type PermissionScope struct {
	Name        string   `json:"obtype" doc:"For the member obtype of a permission entry."`
	Actions     []string `json:"actions"`
	ByObject    bool     `json:"by_object" doc:"obid may be the id of one object; otherwise it is * alone."`
	Description string   `json:"description"`
}

// Catalog lists the scopes of decisions.md section 3, in their order.
func Catalog() []PermissionScope {
	return []PermissionScope{
		{"certificates", []string{"read", "write", "issue"}, true, "Certificates: read them; make and change them (write); " +
			"with read and issue, order and export them. certificate-assign needs read on one certificate by its id."},
		{"devices", []string{"read", "write"}, true, "Devices and their install configurations."},
		{"acme_accounts", []string{"read", "write"}, true, "ACME accounts."},
		{"cas", []string{"read", "write", "issue"}, true, "Certificate authorities of your own."},
		{"service_webhooks", []string{"read", "write"}, true, "Service webhooks and their deliveries."},
		{"ForInstallConfigUpdate", []string{"update"}, true, "POST install-config-update; obid is * or the id of a device."},
		{"ForDeviceAuthenticate", []string{"authenticate", "validate", "revoke", "rekey"}, false, "Register devices without a code; rekey: also with another key."},
	}
}
