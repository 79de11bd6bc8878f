package redistest

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// TurnsBetween listens at an address behind which the connections go to one server after
// the other, as a load balancer's do, until the test ends.
func TurnsBetween(tb testing.TB, servers ...string) (addr string) {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ln.Close() })
	var turn atomic.Int64
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", servers[int(turn.Add(1))%len(servers)])
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
	return ln.Addr().String()
}
