// Package app puts CertHarbor together: configuration, wiring, the list of
// routes, start and stop. It is the only package that sees every area.
//
// The edges between areas stand in imports_test.go; the routes and who may use
// them in testdata/routes.golden; the OpenAPI document in api/openapi.json.
package app
