package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Which server is the master, where Sentinels watch one: they are asked before each connection, and again and again, since
// go-redis tells nobody when there is another one.

const (
	// askEvery is how often Sentinels are asked for the master. go-redis hears of a new
	// master from them and closes the connections of its own pool; it does not know of
	// those that a dialer here has made.
	askEvery = 500 * time.Millisecond

	// askSeldom is how often Sentinels are asked while they do not answer.
	askSeldom = 2 * time.Second
)

// A master is what Sentinels watch. Of the user's client only its Dialer knows the
// Sentinels: it asks them, and dials whom they name.
type master struct {
	dialUsers func(ctx context.Context, network, addr string) (net.Conn, error)
	tls       *tls.Config     // our own, or nil
	hurry     chan struct{}   // one: ask now
	late      chan string     // giveUp's answer
	running   *sync.WaitGroup // calls of dialUsers
	giving    atomic.Bool     // giveUp is under way
	connects  atomic.Bool     // the Dialer knows no Unix sockets, see name

	mu    sync.Mutex
	named string   // the address that the Sentinels named last, or empty
	none  bool     // the Sentinels had all the time that go-redis gives them, and named nobody
	known net.Addr // where the last connection led, or nil
	host  string   // the name that its certificate was checked for, or empty
	bare  bool     // it was without TLS
}

// followSentinels has d keep to the master that the Sentinels of the user's client name.
func (d *dialer) followSentinels() {
	m := &master{
		dialUsers: d.custom, tls: d.options.TLSConfig,
		hurry: make(chan struct{}, 1), late: make(chan string), running: &d.running,
	}
	d.first, d.custom = m.first, m.dial
	d.role = true
	d.watch = func(ctx context.Context) { m.watch(ctx, d.newMaster) }
}

// dial connects to the master. Where nobody can be asked who that is, since the
// Sentinels are away or hang, or the user has closed the client, it is the one that
// was named last: held leases are renewed and released there. Behind a closed client
// it cannot be followed any longer.
func (m *master) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	patience := 2 * opTimeout // the Sentinels', and the master's
	if known, _, _ := m.last(); known != nil && m.giving.Load() {
		patience = opTimeout / 4 // a Sentinel hangs
	}
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := m.call(asked, network, addr)
	if err == nil {
		m.remember(c)
		return c, nil
	}
	if ctx.Err() != nil || dialled(err) != nil {
		return nil, err
	}
	known, host, bare := m.last()
	if known == nil || !bare && m.tls == nil {
		if errors.Is(err, redis.ErrClosed) {
			return nil, fmt.Errorf("%w: it was given to New, and nobody else can ask its Sentinels for the master", err)
		}
		if ofSentinels(err) {
			err = sentinelsSaid(err)
		}
		return nil, err
	}
	var config *tls.Config
	if !bare {
		config = m.tls.Clone()
		if config.ServerName == "" {
			config.ServerName = host
		}
	}
	return dialDefault(ctx, known.Network(), known.String(), config, opTimeout, func() {})
}

// call is the user's Dialer. It returns when ctx ends: where a Sentinel hangs, go-redis
// does not heed that before its own time for an answer is over.
func (m *master) call(ctx context.Context, network, addr string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ready := make(chan result)
	m.running.Go(func() { // the caller is one of them, too, so none is added after the last has ended
		c, err := m.tryUsers(ctx, network, addr)
		select {
		case ready <- result{c, err}:
		case <-ctx.Done():
			if err == nil {
				_ = c.Close()
			}
		}
	})
	select {
	case r := <-ready:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tryUsers is the user's Dialer, which may panic.
func (m *master) tryUsers(ctx context.Context, network, addr string) (_ net.Conn, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return m.dialUsers(ctx, network, addr)
}

// giveUp asks for the master with all the time that go-redis takes until it gives a
// Sentinel up that does not answer, and goes on to the next. A look-up that ends
// before has it stay with that one. ctx ends with the Store.
func (m *master) giveUp(ctx context.Context) {
	if m.giving.Swap(true) {
		return
	}
	m.running.Go(func() {
		defer m.giving.Store(false)
		addr, err := m.name(ctx, m.tryUsers)
		if err != nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.none = true
			return
		}
		select {
		case m.late <- addr:
		case <-ctx.Done():
		}
	})
}

// dialled returns the address of the master where err is that of dialling it. What
// is wrapped may tell of a Sentinel.
func dialled(err error) net.Addr {
	if op, ok := err.(*net.OpError); ok && op.Op == "dial" { //nolint:errorlint // see above
		return op.Addr
	}
	return nil
}

// ofSentinels reports whether err is go-redis's for Sentinels of which none names a master: nothing was dialled then.
func ofSentinels(err error) bool { return strings.Contains(err.Error(), "sentinels") }

// last returns what remember has noted, unless another master was named since.
func (m *master) last() (known net.Addr, host string, bare bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known, m.host, m.bare
}

// remember notes where a connection to the master leads. If that is elsewhere than
// the last, the master may be another.
func (m *master) remember(c net.Conn) {
	host := ""
	t, encrypted := c.(*tls.Conn)
	if encrypted {
		host = t.ConnectionState().ServerName
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known != nil && m.known.String() != c.RemoteAddr().String() {
		select {
		case m.hurry <- struct{}{}:
		default:
		}
	}
	m.known, m.host, m.bare = c.RemoteAddr(), host, !encrypted
}

// first asks for the master's address before the first connection is made, so that
// watch sees a change from the beginning. It reports whether a connection waits for the master from now on: not
// while nobody is named and one of the Sentinels hangs, for the others and the master may be well.
func (m *master) first(ctx context.Context) bool {
	m.mu.Lock()
	known := m.named != "" || m.none
	m.mu.Unlock()
	if known {
		return true
	}
	addr, err := m.ask(ctx)
	if err != nil {
		return !errors.Is(err, context.DeadlineExceeded)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.named == "" {
		m.named = addr
	}
	return true
}

// watch calls moved when another master is named, until ctx ends or there is
// nobody left to ask.
func (m *master) watch(ctx context.Context, moved func()) {
	pause := askEvery
	for {
		var addr string
		var err error
		select {
		case <-ctx.Done():
			return
		case addr = <-m.late:
		case <-m.hurry:
			addr, err = m.ask(ctx)
		case <-time.After(pause):
			addr, err = m.ask(ctx)
		}
		switch {
		case errors.Is(err, redis.ErrClosed):
			return
		case errors.Is(err, context.DeadlineExceeded): // a Sentinel holds up the answer
			pause = askEvery
			m.giveUp(ctx)
			continue
		case err != nil: // Sentinels that are away do not name another master
			pause = askSeldom
			continue
		}
		pause = askEvery
		m.mu.Lock()
		before := m.named
		if before == "" && m.known != nil { // nobody was named as that connection was made
			before = m.known.String()
		}
		another := before != "" && before != addr
		m.named = addr
		if another {
			m.known = nil
		}
		m.mu.Unlock()
		if another {
			moved()
		}
	}
}

// ask returns the address that the Sentinels name, within askEvery.
func (m *master) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	addr, err := m.name(ctx, m.call)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return addr, err
}

// name returns the address that the Sentinels name. The only way to ask is to dial, and a master that does not answer is
// not to hold that up. So a Unix socket is dialled, by the master's address, which is not there; the error names what was
// dialled. For a Dialer that knows no such sockets a connection is made and closed; but not with TLS, whose handshake would cost the
// server's time, and would not end with ctx.
func (m *master) name(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (string, error) {
	if !m.connects.Load() {
		addr, err := nameOf(dial(ctx, "unix", failoverAddr))
		if err == nil || m.tls != nil || ctx.Err() != nil || errors.Is(err, redis.ErrClosed) || ofSentinels(err) {
			return addr, err
		}
	}
	addr, err := nameOf(dial(ctx, "tcp", failoverAddr))
	m.connects.Store(err == nil)
	return addr, err
}

// nameOf returns the address that was dialled, where c and err are what came of it.
func nameOf(c net.Conn, err error) (string, error) {
	if err == nil {
		defer c.Close()
		return c.RemoteAddr().String(), nil
	}
	if addr := dialled(err); addr != nil { // of a master that does not answer, too
		return addr.String(), nil
	}
	return "", err
}

// followSlots has d keep to the master that slots names: Sentinels, too, behind a
// client from redis.NewFailoverClusterClient. reload has the Store's client read
// anew where to send commands.
func (d *dialer) followSlots(slots func(context.Context) ([]redis.ClusterSlot, error), reload func()) {
	d.watch = func(ctx context.Context) {
		var before map[string]bool
		again := false
		for pause := time.Duration(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			masters, err := mastersOf(ctx, slots)
			if err != nil {
				pause = askSeldom
				continue
			}
			pause = askEvery
			moved := before != nil && !maps.Equal(before, masters)
			before = masters
			if moved {
				reload()
			}
			if moved || again { // again: until it had reloaded, the client dialled the old master
				d.newMaster()
			}
			again = moved
		}
	}
}

// mastersOf returns the addresses of the masters that slots names.
func mastersOf(ctx context.Context, slots func(context.Context) ([]redis.ClusterSlot, error)) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	all, err := slots(ctx)
	masters := make(map[string]bool)
	for _, slot := range all {
		if len(slot.Nodes) > 0 {
			masters[slot.Nodes[0].Addr] = true
		}
	}
	return masters, err
}

// sentinelSlots is the address of the code of go-redis's ClusterSlots that asks
// Sentinels.
var sentinelSlots = sync.OnceValue(func() uintptr {
	c := redis.NewFailoverClusterClient(&redis.FailoverOptions{})
	defer c.Close()
	return reflect.ValueOf(c.Options().ClusterSlots).Pointer()
})

func asksSentinels(f func(context.Context) ([]redis.ClusterSlot, error)) bool {
	return reflect.ValueOf(f).Pointer() == sentinelSlots()
}
