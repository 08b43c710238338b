// Package acmeaccounts owns the accounts that users hold at ACME certificate
// authorities (api.md "ACME accounts", decisions.md section 4).
//
//	GET, POST         /apiv1/users/{user_id}/acme-accounts
//	GET, PUT, DELETE  /apiv1/users/{user_id}/acme-accounts/{acme_account_id}
//
// The key pair is made here and sealed. An account is NEW until it has been
// registered at the CA, by the first order or by PUT {"action": "register"};
// it becomes NEW again when its directory changes. Creating an account means
// that the user agrees to the CA's terms of service.
package acmeaccounts
