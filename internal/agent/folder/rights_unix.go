//go:build unix && !linux

package folder

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const searchFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// rightsOf refuses: only Linux has rights of a single thread.
func rightsOf(uid int) (*rights, error) {
	if os.Geteuid() == 0 {
		return nil, errors.New("on this system the agent cannot take that user's rights: chown it to root, or choose another folder")
	}
	return &rights{uid: uid, gid: -1}, nil
}

func (r *rights) do(fn func() error) error { return fn() }
