package redistest

import (
	"errors"
	"net"
	"testing"
)

// run stands for the tests of a package.
type run func() int

func (r run) Run() int { return r() }

func TestSharedIsOneServer(t *testing.T) {
	a, b := Shared(t), Shared(t)
	if a.Addr() != b.Addr() {
		t.Errorf("shared servers at %s and %s, want one", a.Addr(), b.Addr())
	}
}

func TestSharedServerEndsWithTheTests(t *testing.T) {
	var shared sharedServer
	var addr string
	code := session{run(func() int {
		s, err := shared.get()
		if err != nil {
			t.Fatal(err)
		}
		addr = s.Addr()
		if err := probe(addr, s.proc.PID()); err != nil {
			t.Error(err)
		}
		return 3
	}), &shared}.Run()
	if code != 3 {
		t.Errorf("exit code = %d, want 3 as the tests had it", code)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("the shared server outlived the tests")
	}
	if _, err := shared.get(); !errors.Is(err, errNoMain) {
		t.Errorf("shared server after the tests = %v, want %v", err, errNoMain)
	}
}

func TestSharedServerNeedsMain(t *testing.T) {
	var shared sharedServer
	if _, err := shared.get(); !errors.Is(err, errNoMain) {
		t.Errorf("shared server without Main = %v, want %v", err, errNoMain)
	}
}

func TestSharedServerThatDoesNotStartIsReported(t *testing.T) {
	t.Setenv("REDIS_SERVER", "no-such-redis-server")
	var shared sharedServer
	shared.open()
	for range 2 {
		if _, err := shared.get(); !errors.Is(err, errNoBinary) {
			t.Errorf("shared server = %v, want %v", err, errNoBinary)
		}
	}
	if err := shared.close(false); err != nil {
		t.Error(err)
	}
}
