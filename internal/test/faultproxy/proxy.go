package faultproxy

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/memnet"
)

// Direction is one of the two ways through the proxy, or both.
type Direction uint8

// The ways through the proxy. ToServer is taken by requests, ToClient by replies
// and messages.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// Proxy forwards connections to one server. All methods may be called
// concurrently. Faults can be combined, and stay until they are taken back.
type Proxy struct {
	dial     atomic.Pointer[dialFunc] // opens a connection to the server
	listener net.Listener
	refuse   atomic.Bool
	toServer way
	toClient way
	serving  sync.WaitGroup // the accepting goroutine and one of each connection
	gaps     atomic.Int64   // ways of connections in which a black hole has swallowed something, since New

	mu       sync.Mutex
	links    map[*link]struct{} // nil after Close
	rule     *rule              // nil: drop nothing
	dropped  int
	commands map[string]int
	gap      *gap                      // nil: nothing comes between requests
	loses    func(payload []byte) bool // which messages are lost; nil: none
	lost     int
	err      error // the first that should not have happened
}

// New starts a proxy on a free loopback port that forwards to target, a
// host:port that need not answer yet. Its goroutines end with Close.
func New(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return start(listener, to(target)), nil
}

type dialFunc func(ctx context.Context) (net.Conn, error)

// to dials a server at a host:port.
func to(target string) dialFunc {
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", target)
	}
}

// InMemory starts a proxy without a socket in front of a server without one, for
// a synctest bubble: sockets keep a bubble's clock from moving. Clients reach it by
// Dial, and it reaches the server by dial.
func InMemory(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *Proxy {
	return start(memnet.Listen(), func(ctx context.Context) (net.Conn, error) { return dial(ctx, "", "") })
}

func start(listener net.Listener, dial dialFunc) *Proxy {
	p := &Proxy{
		listener: listener,
		links:    make(map[*link]struct{}),
		commands: make(map[string]int),
	}
	p.dial.Store(&dial)
	p.serving.Go(p.accept)
	return p
}

// Start is New for a test: it fails the test on an error, closes the proxy when
// the test ends, and fails it then if Close reports something.
func Start(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := New(target)
	if err != nil {
		tb.Fatalf("faultproxy: %v", err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("close the proxy to %s: %v", target, err)
		}
	})
	return p
}

// Addr returns the address that clients dial, "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Dial opens a connection to a proxy that InMemory has returned. Network and
// address are ignored. During BlackHole it fails at once, unlike a dial of Addr:
// go-redis holds a mutex while it connects a subscription, and a bubble's clock
// stands still while another goroutine waits for a mutex, so that no deadline
// would ever end the two.
func (p *Proxy) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for _, w := range p.ways(Both) {
		if w.blocked() != nil {
			return nil, &net.OpError{Op: "dial", Net: "memory", Addr: p.listener.Addr(), Err: os.ErrDeadlineExceeded}
		}
	}
	return p.listener.(*memnet.Listener).Dial(ctx, network, addr)
}

// Close closes the listener and all connections and waits for the end of every
// goroutine of the proxy. It returns the first thing that went wrong in the proxy
// itself, above all a connection that did not speak RESP. A second Close waits for
// the first and returns the same.
func (p *Proxy) Close() error {
	p.mu.Lock()
	links := p.links
	p.links = nil
	p.mu.Unlock()
	if links != nil {
		p.note(p.listener.Close())
	}
	for l := range links {
		l.close()
	}
	p.serving.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// BlackHole swallows everything that takes the way dir from now on, including
// what is still on its way because of Delay. When it returns, not a byte passes any
// more; it waits for one write to a peer that does not read. Nothing is closed:
// even the end of a connection reaches the other side only after Heal. New
// connections are accepted; while requests are swallowed, without a connection to
// the server, so that they never come to life.
func (p *Proxy) BlackHole(dir Direction) {
	for _, w := range p.ways(dir) {
		w.block()
	}
}

// Stall has everything that takes the way dir wait until Heal. Nothing is lost: it
// is what clients see of a network that loses packets for a while, which TCP sends
// again.
func (p *Proxy) Stall(dir Direction) {
	for _, w := range p.ways(dir) {
		w.stall()
	}
}

// InBytes has everything that takes the way dir arrive a byte at a time, or ends that.
func (p *Proxy) InBytes(dir Direction, on bool) {
	for _, w := range p.ways(dir) {
		w.inBytes.Store(on)
	}
}

// StopReading has the proxy read no more from clients until Heal, as a server that
// hangs. What clients write stays in the buffers of their sockets, and when those are full
// a write waits. The proxy's own are made small for that.
func (p *Proxy) StopReading() {
	p.toServer.deafen()
	p.each(func(l *link) {
		if c, ok := l.client.(interface{ SetReadBuffer(bytes int) error }); ok {
			_ = c.SetReadBuffer(smallBuffer) // fails only when the connection has ended
		}
	})
}

// smallBuffer is about the least that a system allows.
const smallBuffer = 2 << 10

// Heal ends BlackHole, Stall and StopReading, also of single connections. A connection that lost bytes in a
// direction stays silent in it, for there is no going on behind a gap: its
// client finds out by a timeout, or by Cut. Other connections go on.
func (p *Proxy) Heal() {
	for _, w := range p.ways(Both) {
		w.unblock()
	}
	p.each(func(l *link) { (&Conn{l}).Heal() })
}

// Delay makes everything that enters the way dir from now on arrive d later, in
// order; zero ends it for what enters later. A request that is on its way arrives
// also when its client has left meanwhile.
func (p *Proxy) Delay(dir Direction, d time.Duration) {
	for _, w := range p.ways(dir) {
		w.delay.Store(int64(d))
	}
}

// Refuse makes the proxy close new connections at once, or ends that. Present
// ones are left as they are.
func (p *Proxy) Refuse(refuse bool) { p.refuse.Store(refuse) }

// LeadTo has new connections go to another server, a host:port, as where a service or a name
// stands for one server after the other. Present ones stay with theirs.
func (p *Proxy) LeadTo(target string) {
	dial := to(target)
	p.dial.Store(&dial)
}

// Cut closes all connections, on both sides, and returns when nothing of them is
// left. What was on its way is lost.
func (p *Proxy) Cut() {
	for _, l := range p.each((*link).close) {
		<-l.over
	}
}

// each does something with all connections, and returns them.
func (p *Proxy) each(do func(*link)) []*link {
	p.mu.Lock()
	links := slices.Collect(maps.Keys(p.links))
	p.mu.Unlock()
	for _, l := range links {
		do(l)
	}
	return links
}

// Connections returns the number of clients that are connected now.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Commands returns how many requests were forwarded to the server since New or
// ResetCommands, by upper-case name. Swallowed ones do not count; those that
// clients send on their own when they connect (HELLO, CLIENT) do.
func (p *Proxy) Commands() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.commands)
}

// ResetCommands makes Commands count from zero.
func (p *Proxy) ResetCommands() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.commands)
}

func (p *Proxy) ways(dir Direction) []*way {
	var ways []*way
	if dir&ToServer != 0 {
		ways = append(ways, &p.toServer)
	}
	if dir&ToClient != 0 {
		ways = append(ways, &p.toClient)
	}
	return ways
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				p.note(err)
			}
			return
		}
		if p.refuse.Load() {
			_ = conn.Close() // the client is turned away, whatever its side says
			continue
		}
		p.adopt(conn)
	}
}

// adopt serves a client until either side ends the connection.
func (p *Proxy) adopt(conn net.Conn) {
	l := newLink(p, conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links == nil { // closed meanwhile
		l.close()
		return
	}
	p.links[l] = struct{}{}
	p.serving.Go(func() {
		defer p.forget(l)
		l.serve()
	})
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
	close(l.over)
}

func (p *Proxy) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}
