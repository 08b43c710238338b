// Package matrix_test asks every route with every credential: who may do what, what is recorded of it.
package matrix_test
