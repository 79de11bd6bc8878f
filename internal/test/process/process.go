// Package process runs the servers of tests as child processes, which die with this one where the system can do that (Linux).
package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// A Process is a child process that is reaped by exactly one goroutine.
type Process struct {
	Gone chan struct{} // closed when the process was reaped

	cmd *exec.Cmd
	end syscall.Signal
	err error // how it ended; to be read after Gone
}

// Start starts cmd. The signal is the one that ends it, also if this process dies.
func Start(cmd *exec.Cmd, end syscall.Signal) (*Process, error) {
	dieTogether(cmd, end)
	p := &Process{cmd: cmd, end: end, Gone: make(chan struct{})}
	started := make(chan error)
	go p.keep(started)
	if err := <-started; err != nil {
		<-p.Gone
		return nil, err
	}
	return p, nil
}

// keep starts the process and waits for its end, all on one thread: Linux
// delivers the parent's death signal when the *thread* that forked ends, and Go
// may end any thread that no goroutine is locked to.
func (p *Process) keep(started chan<- error) {
	defer close(p.Gone)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
}

// End ends the process by the signal of Start, and waits until it was reaped. SIGKILL ends one that is suspended, too.
// Ending a process that is gone does nothing.
func (p *Process) End() {
	_ = p.cmd.Process.Signal(p.end) // fails only for a process that has ended
	<-p.Gone
}

// Err returns how the process ended, once Gone is closed.
func (p *Process) Err() error { return p.err }

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }
