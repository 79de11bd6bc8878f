//go:build !unix

package redistest

import (
	"errors"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr { return nil }

func (p *process) suspend() error { return errors.ErrUnsupported }

func (p *process) resume() error { return errors.ErrUnsupported }
