package install_test

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// asStranger runs fn with the file system identity of the other user, on a
// thread that ends with it.
func asStranger(done chan<- error, fn func() error) {
	runtime.LockOSThread()
	if asRoot() {
		_, _, _ = unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
		_, _ = unix.SetfsgidRetGid(stranger)
		_, _ = unix.SetfsuidRetUid(stranger)
	}
	done <- fn()
}
