//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// openFiles is how many files this process may have open. Go has raised the
// limit as far as the system lets it when the program started.
func openFiles() int {
	const plenty = 1 << 20
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return plenty
	}
	return int(min(limit.Cur, plenty))
}

// apart has cmd run in a process group of its own, so that the terminal's Ctrl-C is not
// for it.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
