//go:build unix && !linux

package install_test

// asStranger runs fn; there are no threads with another identity here.
func asStranger(done chan<- error, fn func() error) { done <- fn() }
