// Package fault holds the errors that a caller of the API may see.
//
// An area returns a fault when the caller can act on it, and wraps everything
// else with the operation that failed. A fault carries a code of the API
// (api.md "Errors", decisions.md section 1) and a sentence for a person; its
// cause is for the log alone. The package knows nothing of HTTP: package web
// maps a code to a status, and a test there requires every code to have one.
package fault
