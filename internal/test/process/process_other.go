//go:build !unix

package process

import (
	"errors"
	"os/exec"
	"syscall"
)

func dieTogether(*exec.Cmd, syscall.Signal) {}

// Suspend stops the process.
func (p *Process) Suspend() error { return errors.ErrUnsupported }

// Resume lets it go on.
func (p *Process) Resume() error { return errors.ErrUnsupported }
