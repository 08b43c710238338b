// Package webhooks tells the outside that a certificate was issued: signed,
// retried, ordered POSTs to URLs that users configure (api.md "Service
// webhook" and "Events", decisions.md sections 5, 8.5 and 8.6).
//
// Routes, all under /apiv1/users/{user_id}/service_webhooks:
//
//	GET POST                                  list, create
//	GET PUT DELETE  /{webhook_id}             one webhook
//	POST            /{webhook_id}/test        queue a webhook.test event
//	GET             /{webhook_id}/deliveries  what was queued and how it went
//	POST            /{webhook_id}/deliveries/{delivery_id}/redeliver
//
// # Outbox
//
// [Service.Issued] writes one delivery per matching enabled webhook in the
// transaction of the issuance, with the bytes of its body. The id of that row
// is X-BB-Delivery-Id in every attempt.
//
//	PENDING ─2xx→ SUCCESS
//	PENDING ─408, 429, 5xx, no answer→ PENDING, later; after 21 retries EXHAUSTED
//	PENDING ─any other status→ PERMANENT_FAILURE; 410 disables the webhook too
//	SUCCESS, PERMANENT_FAILURE, EXHAUSTED ─redeliver→ PENDING
//
// Of the pending deliveries of one certificate to one webhook only the first,
// the head, has a time of its next attempt; the others are held back until it
// is finished. A unique index keeps it so.
//
// # Draining
//
// At most one job drains a webhook. The webhook's row names it (drain_token)
// and says when it is due. Whoever adds a delivery locks that row and plans a
// job only when none is planned or the planned one comes too late; the job
// looks for remaining deliveries, and gives up its name, under the same lock.
// So a delivery is either seen by the job that runs or has a job planned for
// it. A periodic job plans anew what was due for minutes, whatever the reason.
//
// While it runs, the job holds a lease on the webhook, and results are only
// recorded by its holder: two processes do not deliver to one webhook at a
// time. A process that dies between an attempt and its record makes the
// attempt happen again with the same delivery id; that is the one way in which
// a success reaches its receiver twice.
package webhooks
