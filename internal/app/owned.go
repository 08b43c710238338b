package app

import "certharbor.dev/certharbor/internal/administration"

// parts are what users own, in the order in which it is deleted: what hangs on
// something goes before it.
func (a *App) parts() []administration.Part {
	s := &a.areas
	return []administration.Part{
		{Name: "api_keys", Count: s.apikeys.CountOwned, Erase: s.apikeys.EraseOwned},
		{Name: "certificates", Count: s.certs.CountOwned, Erase: s.certs.EraseOwned},
		{Name: "devices", Count: s.devices.CountOwned, Erase: s.devices.EraseOwned},
		{Name: "service_webhooks", Count: s.webhooks.CountOwned, Erase: s.webhooks.EraseOwned},
		{Name: "orders", Erase: s.issuance.EraseOwned},
		{Name: "acme_accounts", Count: s.accounts.CountOwned, Erase: s.accounts.EraseOwned},
		{Name: "passkeys", Count: s.passkeys.CountOwned, Erase: s.passkeys.EraseOwned},
		{Name: "sessions", Erase: s.identity.EraseOwned},
		{Name: "third_party_bindings", Count: s.providers.CountOwned, Erase: s.providers.EraseOwned},
	}
}
