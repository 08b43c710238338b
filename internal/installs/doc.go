// Package installs keeps what each device installs where: the install
// configuration, a list of items in versions (wire.md 7.2).
//
//	GET  /apiv1/users/{user_id}/devices/{device_id}/install-config
//	PUT  /apiv1/users/{user_id}/devices/{device_id}/install-config
//	POST /apiv1/users/{user_id}/devices/{device_id}/install-config/restore
//	GET  /apiv1/users/{user_id}/devices/{device_id}/install-config-histories
//	POST /apiv1/users/{user_id}/install-config-update/{device_public_id}   API key: patches
//	GET  /apiv1/devices/self/install-config                                 device
//
// A device without a configuration has version 0. Every write, a restored or
// patched one too, makes the next version; numbers never fall or repeat. It is
// kept with its author in the history, written to the audit log and told to the
// device with one install.updated, all in one transaction.
//
// Items are checked when they are written (rules.go) and stored in one
// canonical form: empty members are gone, cmd_argv is folded into cmd, ids are
// filled in. Commands and scripts are data here: nothing on the server runs
// them.
package installs
