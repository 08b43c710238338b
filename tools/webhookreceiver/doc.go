// Command webhookreceiver takes service webhooks as a careful receiver would (api.md, Events): it
// verifies X-BB-Signature over the raw body, refuses timestamps more than five minutes off, answers
// 204 and writes each request it saw as one JSON line (type delivery) to a file or standard output.
//
// With -fail it misbehaves first: each entry of the list is used up by one request, such as
// "500,302,hang,close" for an error, a redirect, no answer at all and a connection closed early.
// It prints "listening ADDRESS" on standard error once it serves.
package main
