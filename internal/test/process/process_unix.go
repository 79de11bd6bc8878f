//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

func dieTogether(*exec.Cmd, syscall.Signal) {}

// Suspend stops the process.
func (p *Process) Suspend() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
