// Package administration is what administrators do about users.
//
//	GET /apiv1/admin/users   every user
//
// Its routes take the session of an administrator and nothing else: never an API
// key. What changes something also takes a passkey used within 15 minutes
// (access.Admin().Fresh()), so that an administrator's stolen password reads at
// most. Path parameters user_id name the user who is looked after.
//
// No route here shows or exports key material, assigns it, seals it anew, signs
// in as a user, or sets what a user signs in with.
package administration
