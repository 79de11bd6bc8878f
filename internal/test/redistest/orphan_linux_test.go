package redistest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// orphanage names, in the environment, that this process is to be killed with a
// server running.
const orphanage = "REDISTEST_ORPHANAGE"

// In the child process: start a server, tell its address and stay.
func TestMain(m *testing.M) {
	if os.Getenv(orphanage) == "" {
		Main(m)
	}
	s, err := Start()
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString(s.Addr() + "\n")
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // for ever
}

func TestServerDiesWithAKilledTestProcess(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), orphanage+"=1", "TMPDIR="+t.TempDir())
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Errorf("the child said %q, %v", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // it was killed
	addr := strings.TrimSpace(line)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-poll.C {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		conn.Close()
	}
	t.Errorf("the server at %s outlived the process that started it", addr)
}
