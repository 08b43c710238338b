// Package administration is what administrators do about users.
//
//	GET    /apiv1/admin/users               users, by role, status and beginning
//	POST   /apiv1/admin/users               invites a user
//	GET    /apiv1/admin/users/{user_id}     one, with what the user owns
//	PATCH  …                                the role and the status
//	DELETE …                                in 7 days; POST …/cancel-deletion
//	POST   …/sign-out, …/resend-activation-email
//
// It owns the table user_deletions. A sweep stops the renewals of who has been
// disabled for 30 days and carries deletions out, batch after batch.
//
// Its routes take the session of an administrator and nothing else: never an API
// key. What changes something also takes a passkey used within 15 minutes
// (access.Admin().Fresh()), so that an administrator's stolen password reads at
// most. Path parameters user_id name the user who is looked after.
//
// No route here shows or exports key material, assigns it, seals it anew, signs
// in as a user, or sets what a user signs in with.
package administration
