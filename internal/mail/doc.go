// Package mail sends e-mail and loses none.
//
// A message is a row (mails) and a job, written in the transaction that caused
// them; the job hands it to the Transport and tries again, 5 s later and then
// doubling up to 5 minutes, until the message expires:
//
//	QUEUED → SENT     the transport took it
//	       → FAILED   the server refused it for good (5xx), or it expired; this
//	                  is in the audit log of the user whom it concerns
//
// What a message says may be a secret, such as a code: it is sealed while it
// waits and erased afterwards. A message may arrive twice, when the process dies
// between the server's word and its recording; both have one Message-ID.
//
// SMTP speaks RFC 5321 with STARTTLS (RFC 3207), or TLS from the start, and
// SASL. Folder is for servers without one: it writes each message to a file.
// Messages have a text and an HTML part (RFC 2046 multipart/alternative) made
// from one Letter, without images or links that tell who reads.
package mail
