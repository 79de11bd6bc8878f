package library

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
)

// A Wire makes the connections to Redis and counts them, and the commands that
// clients send on them. Redis's own statistics do not tell those from the calls
// that scripts make. Its methods may be called concurrently.
type Wire struct {
	commands atomic.Int64
	open     atomic.Int64
	most     atomic.Int64
	tape     atomic.Pointer[tape] // that runs; nil: none
}

// Commands returns how many commands were sent so far, those of new
// connections (HELLO, CLIENT) included.
func (w *Wire) Commands() int64 { return w.commands.Load() }

// Connections returns the most connections that were open at a time.
func (w *Wire) Connections() int64 { return w.most.Load() }

func (w *Wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return w.count((&net.Dialer{}).DialContext(ctx, network, addr))
}

func (w *Wire) dialRueidis(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	return w.count(d.DialContext(ctx, "tcp", addr))
}

func (w *Wire) count(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	open := w.open.Add(1)
	for most := w.most.Load(); open > most && !w.most.CompareAndSwap(most, open); {
		most = w.most.Load()
	}
	// The TCP connection is embedded as what it is: go-redis asks it for its
	// socket before each command, to see whether the server has left.
	return &conn{TCPConn: c.(*net.TCPConn), wire: w}, nil
}

// conn counts the requests among what is written.
type conn struct {
	*net.TCPConn

	wire   *Wire
	closed atomic.Bool
	requests
}

func (c *conn) Write(p []byte) (int, error) {
	if n := c.feed(p); n > 0 {
		c.wire.commands.Add(n)
	}
	if t := c.wire.tape.Load(); t != nil {
		t.write(p)
	}
	return c.TCPConn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if t := c.wire.tape.Load(); t != nil {
		t.read(p[:n])
	}
	return n, err
}

func (c *conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.wire.open.Add(-1)
	}
	return c.TCPConn.Close()
}

// requests finds the requests in what a client writes: arrays of bulk strings.
// A write may end anywhere.
type requests struct {
	line []byte // the beginning of a header that is not complete
	args int64  // of the present request, still to come
	skip int64  // bytes of an argument and its end of line, still to come
}

// feed returns how many requests begin in p.
func (r *requests) feed(p []byte) (begun int64) {
	for len(p) > 0 {
		if r.skip > 0 {
			n := min(r.skip, int64(len(p)))
			p, r.skip = p[n:], r.skip-n
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			r.line = append(r.line, p...)
			return begun
		}
		header := p[:end]
		if len(r.line) > 0 {
			header = append(r.line, header...)
		}
		p = p[end+1:]
		n := number(header)
		switch {
		case r.args > 0: // $<length>
			r.args--
			r.skip = n + int64(len("\r\n"))
		case n > 0: // *<arguments>
			r.args = n
			begun++
		}
		r.line = r.line[:0]
	}
	return begun
}

// number reads the digits of a header such as "*3\r".
func number(header []byte) (n int64) {
	for _, c := range header {
		if c >= '0' && c <= '9' {
			n = n*10 + int64(c-'0')
		}
	}
	return n
}
