// Package apikeys owns API keys: bearer secrets with which programs act for a
// person, limited to named permissions (api.md "API key" and "Authentication",
// decisions.md sections 3 and 8.7).
//
//	GET  /apiv1/permissions/catalog                    what a key can be permitted
//	GET POST          /apiv1/users/{user_id}/apikeys   list, create
//	GET PATCH DELETE  …/apikeys/{apikey_id}            one key
//
// A key is good from its creation until it expires, is deleted, or its owner is
// no longer ACTIVE. Nothing brings it back, and nothing prolongs it. Only a
// session manages keys: no key can make, widen or read one.
//
// The token is shown once. The database keeps its SHA-256 digest, under which
// [Service.Authenticate] finds the key with one statement per request; so a key
// that is revoked, on any node or by the operator's command, is refused at the
// next request. What is remembered between requests is the decoded permissions,
// by id and version of the key.
//
// The time of the last use is kept in memory and written once a minute, for all
// keys in one transaction; it may be lost when the process is killed.
package apikeys
