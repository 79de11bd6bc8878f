// Package memnet has connections and listeners without sockets, for tests in a
// synctest bubble: while a goroutine waits for a socket, a bubble's clock stands
// still.
package memnet

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// pipe returns the two ends of a connection in memory. Each takes whatever is
// written to it, as Buffered describes.
func pipe() (a, b net.Conn) {
	c, d := net.Pipe()
	return Buffered(c), Buffered(d)
}

// Buffered returns conn, an end of a net.Pipe, as a connection that takes
// whatever is written to it, as a socket does with what its buffers hold. Over a
// net.Pipe alone a client and a server that both write wait for each other. What
// the peer has not read when it is closed is lost. It has a goroutine, which ends
// with Close or when the peer has closed its end.
func Buffered(conn net.Conn) net.Conn {
	b := &buffered{Conn: conn, ended: make(chan struct{})}
	b.more.L = &b.mu
	go b.forward()
	return b
}

type buffered struct {
	net.Conn
	ended chan struct{} // forward has

	mu     sync.Mutex
	more   sync.Cond // something is in queue, or the connection is closed
	queue  [][]byte
	closed bool
}

// forward writes what has been queued, until the connection is closed or broken.
func (b *buffered) forward() {
	defer close(b.ended)
	for {
		b.mu.Lock()
		for len(b.queue) == 0 && !b.closed {
			b.more.Wait()
		}
		if b.closed {
			b.mu.Unlock()
			return
		}
		next := b.queue[0]
		b.queue = b.queue[1:]
		b.mu.Unlock()
		if _, err := b.Conn.Write(next); err != nil {
			return // its reader gets the same
		}
	}
}

// Write implements net.Conn. It does not block.
func (b *buffered) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, net.ErrClosed
	}
	b.queue = append(b.queue, bytes.Clone(p))
	b.more.Signal()
	return len(p), nil
}

// SetDeadline implements net.Conn: a write needs none.
func (b *buffered) SetDeadline(t time.Time) error { return b.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (b *buffered) SetWriteDeadline(time.Time) error { return nil }

// Close implements net.Conn. It waits for what is being written.
func (b *buffered) Close() error {
	b.mu.Lock()
	b.closed = true
	b.more.Signal()
	b.mu.Unlock()
	err := b.Conn.Close()
	<-b.ended
	return err
}
