// Package quotas bounds what one user may have and start: numbers of objects,
// stored bytes, attempts at public authorities. It owns the table user_quotas.
//
//	GET /apiv1/users/{user_id}/quotas   what is used and what is allowed
//
// An area that makes objects asks in the transaction that makes one. From then
// to the end of the transaction no other asks for the same user and quota, on
// any node, so that a thousand at once make no more than is allowed. What is
// used is counted through the area's index by user: it is at most what is
// allowed, and nothing has to be kept in step with it.
package quotas
