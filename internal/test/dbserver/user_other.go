//go:build !unix

package dbserver

import "syscall"

func ordinaryUser(string, ...string) (*syscall.SysProcAttr, error) {
	return new(syscall.SysProcAttr), nil
}
