package locktest

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// A connection that was being made while Redis went away and came back is none to the
// Redis that is there now.
func TestADialThatSpansAnOutageIsRefused(t *testing.T) {
	var w way
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	before, _ := w.state()
	w.cut()
	w.mend()
	if w.keep(conn, before) {
		t.Error("a connection from before the outage is kept")
	}
	if now, down := w.state(); down || !w.keep(conn, now) {
		t.Error("a connection after the outage is refused")
	}
}

func TestRefusalsLookLikeTheSystems(t *testing.T) {
	err := refused("tcp", "127.0.0.1:6379")
	if got, want := err.Error(), "dial tcp 127.0.0.1:6379: connect: connection refused"; got != want || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %q, want %q", got, want)
	}
}
