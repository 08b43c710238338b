// Package input_test sends what no client should: bad bodies, paths, queries, methods, streams.
package input_test
