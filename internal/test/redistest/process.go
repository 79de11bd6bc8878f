package redistest

import (
	"os/exec"
	"runtime"
)

// process is a child process that is reaped by exactly one goroutine.
type process struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process was reaped
	err  error         // how it ended; to be read after gone
}

// spawn starts cmd. The process dies with this one where the system can do
// that (Linux).
func spawn(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = sysProcAttr()
	p := &process{cmd: cmd, gone: make(chan struct{})}
	started := make(chan error)
	go p.keep(started)
	if err := <-started; err != nil {
		<-p.gone
		return nil, err
	}
	return p, nil
}

// keep starts the process and waits for its end, all on one thread: Linux
// delivers the parent's death signal when the *thread* that forked ends, and Go
// may end any thread that no goroutine is locked to.
func (p *process) keep(started chan<- error) {
	defer close(p.gone)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
}

// kill ends the process, also a suspended one, and waits until it was reaped.
// Killing a process that is gone does nothing.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only for a process that has ended
	<-p.gone
}

func (p *process) pid() int { return p.cmd.Process.Pid }
