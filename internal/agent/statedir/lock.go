package statedir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrLocked is wrapped by Lock when another process holds the folder.
var ErrLocked = errors.New("another certharbor-agent is using the state folder")

const lockName = "lock"

// How often and how long Lock waits: for a look of Holder to end, and for a
// process that was just killed, whose lock lives on for an instant in a child
// that it was about to start.
const (
	looks = 100
	look  = 10 * time.Millisecond
)

// Lock is the right to change a state folder. The kernel takes it back when
// the process ends, however it ends: a lock file left behind holds nobody.
type Lock struct {
	file *os.File
}

// Lock takes the folder for this process. When another process has it the
// error wraps ErrLocked and names that process.
func (d *Dir) Lock() (*Lock, error) {
	f, info, err := d.folder.OpenLock(lockName)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if !info.Mode.IsRegular() || info.UID != os.Geteuid() {
		return nil, errors.Join(fmt.Errorf("%s is not a file of the user who runs this agent: remove it", filepath.Join(d.path, lockName)), f.Close())
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	// Holder, asked by a status command, takes the lock for an instant.
	for try := 0; try < looks && errors.Is(err, syscall.EWOULDBLOCK); try++ {
		time.Sleep(look)
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w %s (process %s): stop it first, or choose another folder with --state", ErrLocked, d.path, holder(f))
		return nil, errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock state folder: %w", err), f.Close())
	}
	if err := note(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Lock{file: f}, nil
}

// note leaves the process id in the lock file, for messages only.
func note(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	return nil
}

func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 20))
	if _, convErr := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || convErr != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// Unlock gives the folder back.
func (l *Lock) Unlock() error {
	return l.file.Close()
}

// Holder gives the id of the process that holds the folder, or "" when it is
// free. It only looks.
func (d *Dir) Holder() (string, error) {
	if d.folder == nil {
		return "", nil
	}
	f, _, err := d.folder.Open(lockName)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("open lock: %w", err)
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return holder(f), nil
	}
	if err != nil {
		return "", fmt.Errorf("look at lock: %w", err)
	}
	return "", nil
}
