package folder

import (
	"os/user"
	"strconv"
)

// nogroup is the group of users that the system does not list.
const nogroup = 65534

// rights are those of another user.
type rights struct{ uid, gid int }

func groupOf(uid int) int {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return nogroup
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil || gid == 0 {
		return nogroup
	}
	return gid
}
