package redistest

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// A pipe is a connection in memory that takes whatever is written to it, as a
// socket does with what its buffers hold. Over a net.Pipe alone a client and a
// server that both write wait for each other.
type pipe struct {
	net.Conn
	ended chan struct{} // forward has

	mu     sync.Mutex
	more   sync.Cond // something is in queue, or the pipe is closed
	queue  [][]byte
	closed bool
}

func newPipe(conn net.Conn) *pipe {
	p := &pipe{Conn: conn, ended: make(chan struct{})}
	p.more.L = &p.mu
	go p.forward()
	return p
}

// forward writes what has been queued, until the pipe is closed or broken.
func (p *pipe) forward() {
	defer close(p.ended)
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && !p.closed {
			p.more.Wait()
		}
		if p.closed {
			p.mu.Unlock()
			return
		}
		next := p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
		if _, err := p.Conn.Write(next); err != nil {
			return // its reader gets the same
		}
	}
}

// Write implements net.Conn. It does not block.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, net.ErrClosed
	}
	p.queue = append(p.queue, bytes.Clone(b))
	p.more.Signal()
	return len(b), nil
}

// SetDeadline implements net.Conn: a write needs none.
func (p *pipe) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

// Close implements net.Conn. It waits for what is being written.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.more.Signal()
	p.mu.Unlock()
	err := p.Conn.Close()
	<-p.ended
	return err
}
