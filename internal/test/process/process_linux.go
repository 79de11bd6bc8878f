package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func dieTogether(cmd *exec.Cmd, end syscall.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = end
}

// Suspend stops p and returns once it has stopped: the signal alone returns
// while p may still answer a command on another processor.
func (p *Process) Suspend() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		stopped, err := isStopped(p.PID())
		if err != nil || stopped {
			return err
		}
		<-poll.C
	}
}

// Resume lets it go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// isStopped reads the state that follows the command's name in
// /proc/<pid>/stat: "17 (redis-server) T …". The name may itself hold a ")".
func isStopped(pid int) (bool, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false, err
	}
	_, state, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	if !found || len(state) == 0 {
		return false, fmt.Errorf("process: cannot read the state of process %d in %q", pid, stat)
	}
	return state[0] == 'T', nil
}
