package doortest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// startInMemory starts a server that is reached without a socket, for a
// synctest bubble: sockets keep a bubble's clock from moving. Only its Client
// and dial reach it.
func startInMemory(handler http.Handler) (server *httptest.Server, dial func(context.Context) (net.Conn, error)) {
	server = httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	l := &memoryListener{addr: server.Listener.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	server.Listener = l
	server.Start()
	server.Client().Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return l.dial(ctx)
	}
	return server, l.dial
}

// A memoryListener hands over one end of a net.Pipe for each dial.
type memoryListener struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *memoryListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It may be called again.
func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *memoryListener) Addr() net.Addr { return l.addr }
