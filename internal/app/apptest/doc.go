// Package apptest is the kit of the tests of the whole program: a server on a
// database of its own behind a real socket (Start), people and devices that
// use it (Program.Person, Caller.Enrol), one object of each kind (NewWorld),
// the operations that the OpenAPI document lists, and a search for every secret
// that passed, which each program ends with.
//
// The tests are in test/: matrix (who may do what, and what the audit log says
// of it), input (what is wrong with a request), threats (attacks), life (what a
// person sees of it). Those of the program's own parts, such as its settings,
// stand beside them in internal/app.
package apptest
