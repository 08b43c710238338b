package folder

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// searchFlags open a folder to look for names in, which needs no right to list it.
const searchFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

var errCannotAct = errors.New("the agent cannot take that user's rights here (it lacks CAP_SETUID or CAP_SETGID): choose another folder")

// rightsOf gives the rights of a user. An agent that is not root has none but
// its own: the system holds it to them.
func rightsOf(uid int) (*rights, error) {
	r := &rights{uid: uid, gid: groupOf(uid)}
	if os.Geteuid() != 0 {
		r.gid = -1
	}
	return r, r.do(func() error { return nil })
}

// do runs fn with these rights on a thread of its own, which ends with it: no
// other code ever runs there. With a file system identity other than root a
// thread loses the capabilities that pass over permissions.
func (r *rights) do(fn func() error) error {
	if r == nil || r.gid < 0 {
		return fn()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		err := r.take()
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	return <-done
}

func (r *rights) take() error {
	// The system call is this thread's alone; package syscall changes all threads.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("%w: %w", errCannotAct, errno)
	}
	// These two tell no error; asked for an impossible one they name the present.
	_, _ = unix.SetfsgidRetGid(r.gid) //nolint:errcheck // see above
	_, _ = unix.SetfsuidRetUid(r.uid) //nolint:errcheck // see above
	gid, _ := unix.SetfsgidRetGid(-1) //nolint:errcheck // see above
	uid, _ := unix.SetfsuidRetUid(-1) //nolint:errcheck // see above
	if gid != r.gid || uid != r.uid {
		return errCannotAct
	}
	return nil
}
