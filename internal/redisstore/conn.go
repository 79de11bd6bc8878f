package redisstore

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// A conn is a connection that a dialer made.
type conn struct {
	net.Conn
	dialer *dialer
	addr   string // what was dialled
	closed atomic.Bool
	raw    atomic.Bool // it is one for commands
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if c.closed.Load() { // it may not be shut yet
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Write(b)
	return n, c.orClosed(err)
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.dialer.heard(c.addr)
	}
	return n, c.orClosed(err)
}

// orClosed is err, unless it comes from the connection's being closed.
func (c *conn) orClosed(err error) error {
	if err != nil && c.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.dialer.drop(c)
	return nil
}

// shut closes the connection without the message with which TLS takes its leave: sending that waits up
// to five seconds where the other side does not read. What the kernel has not brought to the server yet over a
// connection for commands is thrown away (SO_LINGER 0). It would try on for minutes, and take a lock for a caller
// who has left, or for a Locker that is closed. What was answered has arrived.
func (c *conn) shut() error {
	inner := c.Conn
	if t, ok := inner.(*tls.Conn); ok {
		inner = t.NetConn()
	}
	if c.raw.Load() {
		c.dialer.lost.Store(true)
		if tcp, ok := inner.(interface{ SetLinger(seconds int) error }); ok {
			_ = tcp.SetLinger(0)
		}
	}
	return inner.Close()
}

// SyscallConn implements syscall.Conn, which a pool uses to see whether the server
// has closed an idle connection.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if c.closed.Load() {
		return nil, net.ErrClosed
	}
	inner := c.Conn
	if t, ok := inner.(*tls.Conn); ok {
		inner = t.NetConn()
	}
	if s, ok := inner.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return opaque{}, nil
}

// An opaque takes the place of the socket of a connection that does not show its
// own, such as one of the user's Dialer. A pool finds nothing wrong with it.
type opaque struct{}

func (opaque) Control(func(uintptr)) error    { return nil }
func (opaque) Read(func(uintptr) bool) error  { return nil }
func (opaque) Write(func(uintptr) bool) error { return nil }

// A stillborn takes the place of a connection that could not be set up. All that is
// done with it fails, with the reason.
type stillborn struct{ err error }

var _ net.Conn = stillborn{}

func (s stillborn) Read([]byte) (int, error)              { return 0, s.err }
func (s stillborn) Write([]byte) (int, error)             { return 0, s.err }
func (s stillborn) SyscallConn() (syscall.RawConn, error) { return nil, s.err }
func (stillborn) Close() error                            { return nil }
func (stillborn) LocalAddr() net.Addr                     { return &net.TCPAddr{} }
func (stillborn) RemoteAddr() net.Addr                    { return &net.TCPAddr{} }
func (stillborn) SetDeadline(time.Time) error             { return nil }
func (stillborn) SetReadDeadline(time.Time) error         { return nil }
func (stillborn) SetWriteDeadline(time.Time) error        { return nil }
