package memnet

import (
	"context"
	"net"
	"sync"
)

// A Listener is a net.Listener that is reached by its Dial alone.
type Listener struct {
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a Listener.
func Listen() *Listener {
	return &Listener{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial returns an end of a connection whose other end Accept returns. It ends with ctx
// or Close, if nobody accepts. Network and address are those of the Listener,
// whatever they are.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := pipe()
	err := net.ErrClosed
	select {
	case l.accepted <- theirs:
		return ours, nil
	case <-l.closed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = ours.Close()
	_ = theirs.Close()
	return nil, err
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It may be called again.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener. It looks like an address, and is none.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
