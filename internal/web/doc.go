// Package web is the one way a request takes.
//
// An area mounts its routes with Route (a JSON value), RouteReply (a chosen
// status, headers, a list) or Raw (downloads and streams); each line names
// method, path and the access.Rule. The Mux runs one fixed chain around every
// handler: recover, request id, log, cross-origin protection,
// authenticate, permission, body. Handlers return a value or an error; only this
// package writes answers:
//
//	{"data": …}                            success (api.md "Response envelope")
//	{"data": […], "meta": {…}}             a list (decisions.md section 1)
//	{"error": {"code", "what", "key"?, "params"?}}   failure
//
// It is a thin cover over huma, which decodes, validates and describes: input
// types carry the rules as tags and become the OpenAPI document. No other
// package imports huma.
//
// Paths under /apiv1/me/ are an alias of /apiv1/users/{user_id}/ for every
// route; handlers take the user from access.From, never from the path.
package web
