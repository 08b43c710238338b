// Package life_test plays what people and machines do with the whole program, also at once and on several nodes.
package life_test
