//go:build unix

package dbserver

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// ordinaryUser returns what has a process run by the first of the users that there is, if this one runs by root, and gives folder to that one.
func ordinaryUser(folder string, names ...string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return new(syscall.SysProcAttr), nil
	}
	var err error
	for _, name := range names {
		var u *user.User
		if u, err = user.Lookup(name); err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		as := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return as, os.Chown(folder, uid, gid)
	}
	return nil, err
}
