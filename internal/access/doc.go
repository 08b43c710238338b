// Package access says who calls and what a route takes.
//
// A Caller is what authentication made of the credential of a request. A Rule
// stands on the route line and names every credential the route accepts; the
// list of routes is therefore the access matrix. Package web authenticates and
// asks the rule; the areas read the Caller with From.
package access
