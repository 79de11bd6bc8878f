//go:build unix && !linux

package redistest

import "syscall"

func sysProcAttr() *syscall.SysProcAttr { return nil }

func (p *process) suspend() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
