// Package certs owns certificate records: their names, keys, chains, custody
// policy, renewal time, assignments to devices and exports.
//
// # Routes
//
//	GET    /apiv1/users/{user_id}/certificates                                list, detail=most with the long members
//	POST   /apiv1/users/{user_id}/certificates                                create, import or csr
//	GET    /apiv1/users/{user_id}/acme-accounts/{acme_account_id}/certificates
//	GET    /apiv1/users/{user_id}/certificates/{certificate_id}
//	PUT    /apiv1/users/{user_id}/certificates/{certificate_id}               update, verify_domain, revoke, rekey
//	DELETE /apiv1/users/{user_id}/certificates/{certificate_id}
//	GET    /apiv1/users/{user_id}/certificates/{certificate_id}/export        zip, pem, pfx, jks, der
//	GET    /apiv1/users/{user_id}/devices/{device_id}/certificates
//	POST   /apiv1/users/{user_id}/devices/{device_id}/certificates            assign
//	DELETE /apiv1/users/{user_id}/devices/{device_id}/certificates/{certificate_id}
//	GET    /apiv1/users/{user_id}/devices/{device_id}/certificates/{certificate_id}/bundle
//	POST   /apiv1/users/{user_id}/certificate-assign                          assign, by API key
//	GET    /apiv1/devices/self/certificates/{certificate_id}                  record and materials
//	GET    /apiv1/devices/self/certificates/{certificate_id}/deploy-materials
//	GET    /apiv1/devices/self/certificates/{certificate_id}/bundle           the same
//
// # States
//
// A record is NEW until its first issuance succeeds, then ACTIVE, EXPIRED once
// its leaf's not_after has passed, or REVOKED until the next issuance. Issuances
// themselves belong to package issuance, which ends one with Service.Store.
//
// # Custody
//
// A private key is encrypted under a data key of its own. The data key is
// sealed for the server, wrapped for each assigned device, or both, as the
// policy says; key_version tells the wraps of the present key from old ones.
// Who changes the key, the policy or an assignment locks the record first, and
// an assignment locks the device before that, so that each assigned device ends
// up with a wrap of the key that is stored, made for the key that it holds.
//
// # Rules without I/O
//
// They stand in files of their own: names.go (what may be ordered), keys.go and
// csr.go (key strength, signing requests), chain.go (PEM chains), policy.go (who
// may receive a private key), renewal.go (when to renew) and export.go (archives
// and key stores).
package certs
