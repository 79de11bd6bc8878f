package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"
)

// TLS starts a server that speaks TLS in front of target until the test ends. It
// returns the server's address, and a configuration for clients that trust it.
func TLS(tb testing.TB, target string) (addr string, config *tls.Config) {
	tb.Helper()
	cert, roots := Certificate(tb)
	return front(tb, target, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}),
		&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// MutualTLS is TLS with a server that wants a certificate of its clients, as a redis-server
// with tls-auth-clients does, and speaks the given version. cert is the server's, and the one that clients may show.
func MutualTLS(tb testing.TB, target string, version uint16) (addr string, cert tls.Certificate) {
	tb.Helper()
	cert, roots := Certificate(tb)
	return front(tb, target, &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, MinVersion: version, MaxVersion: version,
	}), cert
}

// front starts a server with config in front of target until the test ends, and returns its address.
func front(tb testing.TB, target string, config *tls.Config) string {
	tb.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		tb.Fatal(err)
	}
	f := &tlsFront{target: target, open: make(map[net.Conn]bool)}
	f.serving.Go(func() { f.accept(listener) })
	tb.Cleanup(func() {
		_ = listener.Close()
		f.close()
	})
	return listener.Addr().String()
}

// A tlsFront passes on what comes over TLS.
type tlsFront struct {
	target  string
	serving sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

func (f *tlsFront) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		f.serving.Go(func() { f.serve(client) })
	}
}

func (f *tlsFront) serve(client net.Conn) {
	server, err := net.Dial("tcp", f.target)
	if err != nil {
		_ = client.Close()
		return
	}
	if !f.keep(client, server) {
		return
	}
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			_ = from.Close()
			_ = to.Close()
		})
	}
	both.Wait()
}

func (f *tlsFront) keep(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		if f.closed {
			_ = c.Close()
		} else {
			f.open[c] = true
		}
	}
	return !f.closed
}

func (f *tlsFront) close() {
	f.mu.Lock()
	f.closed = true
	for c := range f.open {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.serving.Wait()
}

// Certificate returns one for localhost and 127.0.0.1 that is its own authority.
func Certificate(tb testing.TB) (tls.Certificate, *x509.CertPool) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
