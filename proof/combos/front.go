package combos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
)

// front takes TLS connections and passes their bytes on to a plain TCP address. When
// the plain connection ends it ends the other with TLS's message for that, as a
// server does that closes idle connections.
type front struct {
	target   string
	listener net.Listener
	server   *tls.Config
	roots    *x509.CertPool
	mute     atomic.Bool // new connections are accepted, and never answered
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // whether it was accepted while mute; nil when closed
}

func startFront(tb testing.TB, target string) *front {
	tb.Helper()
	cert, roots := redistest.Certificate(tb)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	f := &front{
		target: target, listener: listener, roots: roots, conns: make(map[net.Conn]bool),
		server: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}
	f.serving.Go(f.accept)
	tb.Cleanup(f.close)
	return f
}

// client returns what a client needs to trust the front.
func (f *front) client() *tls.Config {
	return &tls.Config{RootCAs: f.roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
}

func (f *front) addr() string { return f.listener.Addr().String() }

func (f *front) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return // closed
		}
		if f.keep(conn) {
			f.serving.Go(func() { f.serve(conn) })
		}
	}
}

func (f *front) keep(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conns == nil {
		_ = conn.Close()
		return false
	}
	f.conns[conn] = f.mute.Load()
	return true
}

func (f *front) drop(conn net.Conn) {
	f.mu.Lock()
	delete(f.conns, conn)
	f.mu.Unlock()
	_ = conn.Close()
}

func (f *front) serve(raw net.Conn) {
	defer f.drop(raw)
	if f.mute.Load() {
		_, _ = io.Copy(io.Discard, raw)
		return
	}
	plain, err := net.DialTimeout("tcp", f.target, time.Second)
	if err != nil || !f.keep(plain) {
		return
	}
	defer f.drop(plain)
	secure := tls.Server(raw, f.server)
	up := make(chan struct{})
	go func() {
		defer close(up)
		_, _ = io.Copy(plain, secure)
		_ = plain.Close()
	}()
	_, _ = io.Copy(secure, plain)
	_ = secure.Close() // with TLS's message for that
	<-up
}

// cut ends all connections, without a message.
func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.conns {
		_ = conn.Close()
	}
}

func (f *front) close() {
	f.cut()
	f.mu.Lock()
	f.conns = nil
	f.mu.Unlock()
	_ = f.listener.Close()
	f.serving.Wait()
}

// cutMute ends the connections that were accepted and heard nothing: their
// clients have sent a greeting that nobody will answer.
func (f *front) cutMute() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn, mute := range f.conns {
		if mute {
			_ = conn.Close()
		}
	}
}

// secure shakes hands on a connection that a dialer of the user has made.
func (f *front) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	secure := tls.Client(conn, f.client())
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}
