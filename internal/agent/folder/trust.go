package folder

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

func (w *walk) trusted(uid int) bool { return uid == 0 || uid == w.self }

// judge looks at an open folder on the way, or at the last one: whose it is,
// and who else can write it.
func (w *walk) judge(fd int, path string, last bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "open folder", Path: path, Err: err}
	}
	info := infoOf(&st)
	if slices.Contains(w.opt.Never, info.ID) {
		return &Refusal{path, "is the agent's own: choose another folder"}
	}
	if err := w.owner(info, path, last); err != nil {
		return err
	}
	shared := w.shares(info)
	if shared && (last || info.Mode&fs.ModeSticky == 0 || !w.trusted(info.UID)) {
		return &Refusal{path, fmt.Sprintf("can be written by other users (mode %04o, group %d): take that right away with chmod go-w %s, or choose another folder",
			info.Mode.Perm(), info.GID, path)}
	}
	w.shared = shared
	return nil
}

// owner decides with whose rights the walk goes on.
func (w *walk) owner(info Info, path string, last bool) error {
	switch {
	case w.as != nil && info.UID == w.as.uid:
		return nil
	case w.as != nil && (last || !w.trusted(info.UID)):
		return &Refusal{path, fmt.Sprintf("belongs to %s and a folder above it to %s, who can put another in its place: chown one of them, or choose another folder",
			who(info.UID), who(w.as.uid))}
	case w.trusted(info.UID):
		if last && w.opt.Own && info.UID != w.self {
			return &Refusal{path, fmt.Sprintf("belongs to %s: run as that user, or chown %s %s", who(info.UID), account(w.self), path)}
		}
		return nil
	case w.opt.Own:
		return &Refusal{path, fmt.Sprintf("belongs to %s, who can change what the agent finds there: chown %s %s, or choose another folder", who(info.UID), account(w.self), path)}
	case w.shared:
		return &Refusal{path, fmt.Sprintf("belongs to %s and lies in a folder that everybody can write: chown %s %s, or choose another folder", who(info.UID), account(w.self), path)}
	}
	as, err := rightsOf(info.UID)
	if err != nil {
		return &Refusal{path, fmt.Sprintf("belongs to %s: %v", who(info.UID), err)}
	}
	w.as = as
	return nil
}

// shares says whether users other than the owner can write. A group counts as
// such unless it is root's, the agent's own, or the owner's private one, which
// has the owner's number.
func (w *walk) shares(info Info) bool {
	if info.Mode&0o002 != 0 {
		return true
	}
	return info.Mode&0o020 != 0 && info.GID != 0 && info.GID != os.Getegid() && info.GID != info.UID
}

// account names a user for chown.
func account(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// who names a user in a sentence.
func who(uid int) string {
	if name := account(uid); name != strconv.Itoa(uid) {
		return name
	}
	return "user " + strconv.Itoa(uid)
}
