package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/kit/internal/store"
)

// Where all connections of a Store come from: a dialer opens them, has them set up (setup.go), and closes them when another
// server has become the master or the Store is closed.

const (
	// setUpTimeout bounds the setting up of one connection, unless the user's
	// DialTimeout allows more. It is longer than callers wait: a credentials provider
	// may take seconds. The connection that is ready then serves the next caller.
	setUpTimeout = 5 * time.Second
	setUpMost    = 30 * time.Second

	// closeTimeout is how long Close waits for functions of the user (a Dialer, a
	// credentials provider, OnConnect) that go on after their context has ended.
	closeTimeout = time.Second

	// leaveEvery is how often connections are replaced at most because the server refuses
	// what only a master carries out: it may be a replica for good.
	leaveEvery = time.Second

	// abandonedMost is how many such functions may be under way. While there are as
	// many no connection is set up.
	abandonedMost = 64
)

var (
	errStoreClosed = errors.New("the Locker is closed")
	errNewMaster   = errors.New("another server has become the master")
	errAbandoned   = errors.New("the client's Dialer, credentials provider or OnConnect does not return")
)

// A dialer makes a Store's connections and knows which are open. It hands out
// connections that are set up: encrypted, authenticated, with database and name
// chosen, and with the user's OnConnect done. So all that can go wrong, or take
// long, before the first command does so here, and whoever gets an error from
// here knows that nothing was sent.
type dialer struct {
	options redis.Options                                                     // what a connection is set up with; nothing in it is shared with the user's client
	custom  func(ctx context.Context, network, addr string) (net.Conn, error) // the user's Dialer; nil: go-redis's default
	timeout time.Duration                                                     // bounds the set-up of a connection
	first   func(ctx context.Context) bool                                    // before custom is called: reports whether that is to wait for the server; nil: it is
	watch   func(ctx context.Context)                                         // follows the master until ctx ends; nil: nobody need
	role    bool                                                              // a replica is refused
	retire  func()                                                            // replaces the connections that commands take, see rotation

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	noRole atomic.Bool                // the Redis user may not ask for the role
	eras   atomic.Int64               // that have ended
	lost   atomic.Bool                // a connection for commands has ended since raw made one
	anew   atomic.Int64               // how often raw made one after that
	pings  atomic.Pointer[[]*pinging] // under way; replaced, with mu held, and never changed

	mu       sync.Mutex
	era      *era
	left     time.Time // when leaveReplica ended an era last
	open     map[*conn]struct{}
	setUps   map[*setUp]struct{} // under way
	last     *setUpError         // of the last that failed
	failedAt time.Time           // it did
	watching bool
	closed   bool
	awaited  bool // close waits for running, to which nothing is added any more
	running  sync.WaitGroup
}

// An era is the time during which one server is the master. Its context ends when
// another one is.
type era struct {
	ctx       context.Context
	cancel    context.CancelCauseFunc
	abandoned atomic.Int32 // set-ups that go on although nobody waits for them
	unheard   atomic.Int32 // of them, were dialling then
}

// newDialer returns a dialer that sets up connections with o, which is its own
// from now on.
func newDialer(o *redis.Options) *dialer {
	d := &dialer{open: map[*conn]struct{}{}, setUps: map[*setUp]struct{}{}}
	d.timeout = min(max(o.DialTimeout, setUpTimeout), setUpMost)
	if o.Dialer != nil && !isDefaultDialer(o.Dialer) {
		d.custom = o.Dialer
	}
	d.options = setUpOptions(o)
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	d.era = d.newEra()
	if provider := o.StreamingCredentialsProvider; provider != nil {
		d.options.StreamingCredentialsProvider = newRotation(provider, d)
	}
	return d
}

func (d *dialer) newEra() *era {
	e := new(era)
	e.ctx, e.cancel = context.WithCancelCause(d.ctx)
	return e
}

// dial implements redis.Options.Dialer. Where the connection cannot be set up it
// returns one that answers everything with the reason: a pool takes an error for
// the server's end and dials on in the background, once a second and without end,
// whether the server is away or the password is wrong.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.dialFor(ctx, network, addr, nil)
}

// dialFor is dial for a ping, which wants to know what it waits for, or for none.
func (d *dialer) dialFor(ctx context.Context, network, addr string, p *pinging) (net.Conn, error) {
	c, err := d.connect(ctx, network, addr, p)
	if err != nil {
		return stillborn{err}, nil //nolint:nilerr // the connection tells it
	}
	return c, nil
}

// connect returns a connection that is ready for commands. The error is a
// *setUpError. It returns when ctx ends. Where the era ends meanwhile, the connection
// is made anew, to the server that is the master by now.
func (d *dialer) connect(ctx context.Context, network, addr string, p *pinging) (net.Conn, error) {
	for {
		c, err := d.connectNow(ctx, network, addr, p)
		if err == nil || ctx.Err() != nil || !errors.Is(d.verdict(err), errNewMaster) {
			return c, err
		}
	}
}

// connectNow is connect within one era.
func (d *dialer) connectNow(ctx context.Context, network, addr string, p *pinging) (net.Conn, error) {
	s := &setUp{dialer: d, network: network, addr: addr, ping: p, began: time.Now()}
	s.stage.Store(int32(dialling))
	if err := d.begin(s); err != nil {
		return nil, err
	}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeout(s.era.ctx, d.timeout)
	stop := context.AfterFunc(ctx, cancel)
	type result struct {
		conn *conn
		err  *setUpError
	}
	ready := make(chan result)
	go func() { // its end is awaited by close, within closeTimeout
		defer d.running.Done()
		defer cancel()
		defer stop()
		c, err := s.run()
		select {
		case ready <- result{c, err}:
		case <-s.ctx.Done():
			if c != nil {
				_ = c.Close()
			}
			if s.left.Swap(true) {
				s.era.abandon(s, -1)
			}
		}
	}()
	select {
	case r := <-ready:
		d.end(s, r.err)
		if r.err != nil {
			return nil, r.err
		}
		return r.conn, nil
	case <-s.ctx.Done():
		s.leftAt = stage(s.stage.Load())
		if !s.left.Swap(true) {
			s.era.abandon(s, 1)
		}
		err := s.failed(context.Cause(s.ctx))
		d.end(s, err)
		return nil, err
	}
}

// abandon counts a set-up that was left in, or one that has ended since out.
func (e *era) abandon(s *setUp, n int32) {
	if s.leftAt == dialling {
		e.unheard.Add(n)
	}
	e.abandoned.Add(n)
}

// begin notes that a connection is being set up, in the present era. The first one
// starts watch.
func (d *dialer) begin(s *setUp) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.era = d.era
	switch {
	case d.closed:
		return s.failed(errStoreClosed)
	case s.era.abandoned.Load() >= abandonedMost:
		return s.failed(errAbandoned)
	}
	d.setUps[s] = struct{}{}
	d.running.Add(1)
	if d.watch != nil && !d.watching {
		d.watching = true
		d.running.Go(func() { d.watch(d.ctx) })
	}
	return nil
}

// end notes that a set-up is over, and its error if it failed.
func (d *dialer) end(s *setUp, err *setUpError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.setUps, s)
	if err != nil {
		d.last, d.failedAt = err, time.Now()
	}
}

// keep takes note of an open connection, unless its era is over.
func (d *dialer) keep(c *conn, e *era) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := context.Cause(e.ctx); err != nil {
		return err
	}
	d.open[c] = struct{}{}
	return nil
}

// drop closes a connection, unless it is closed.
func (d *dialer) drop(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
	d.shut(c)
}

// shut closes a connection, unless it is closed: no write to it begins any more when it returns. It does not wait for
// more than that, and nor do those who read or write, for one of the user's Dialer may take its time. The caller holds mu.
func (d *dialer) shut(c *conn) {
	if c.closed.Swap(true) {
		return
	}
	shut := func() {
		_ = c.Conn.SetDeadline(time.Now())
		_ = c.shut()
	}
	if d.awaited { // too late to be waited for
		go shut()
		return
	}
	d.running.Go(shut)
}

// newMaster ends the era: all connections are closed, and none that is being set
// up now will be used. Commands on them end with an error, and those that may be
// repeated are, over connections to the new master.
func (d *dialer) newMaster() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endEra()
}

// leaveReplica ends the era, unless it has ended since eras was seen, or another did just
// now for the same reason. It reports whether a command that was sent then would take a new
// connection now. The address may lead to another server than before, as that of a
// Kubernetes Service does, while the old one, now a replica, keeps its connections open.
func (d *dialer) leaveReplica(eras int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eras.Load() != eras {
		return true
	}
	if d.closed || time.Since(d.left) < leaveEvery {
		return false
	}
	d.left = time.Now()
	d.endEra()
	return true
}

// endEra is newMaster. The caller holds mu.
func (d *dialer) endEra() {
	if d.closed {
		return
	}
	d.era.cancel(errNewMaster)
	d.era = d.newEra()
	d.eras.Add(1)
	d.closeOpen()
}

// closeOpen closes all open connections: when it returns, no write to them begins any
// more. The caller holds mu.
func (d *dialer) closeOpen() {
	for c := range d.open {
		d.shut(c)
	}
	clear(d.open)
}

// stop ends what is being set up. No connection is made afterwards.
func (d *dialer) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.cancel(errStoreClosed)
}

// goes has f, which calls a function of the user's, run as one of the dialer's goroutines, unless the Store is closed.
func (d *dialer) goes(f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return &store.Error{Err: errStoreClosed, Permanent: true}
	}
	d.running.Go(f)
	return nil
}

// atClose has f called when the Store is closed, or now if it is. Whoever calls it is one
// of the dialer's goroutines.
func (d *dialer) atClose(f func()) {
	d.running.Add(1)
	context.AfterFunc(d.ctx, func() {
		defer d.running.Done()
		f()
	})
}

// close closes all connections and waits for the dialer's goroutines, but not for
// long: functions of the user may go on after their context has ended.
func (d *dialer) close() {
	d.stop()
	d.mu.Lock()
	d.closeOpen()
	d.awaited = true
	d.mu.Unlock()
	ended := make(chan struct{})
	go func() { d.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(closeTimeout):
	}
}

// tells has a ping told of what the connections bring, until done is called.
func (d *dialer) tells(p *pinging) (done func()) {
	change := func(to func(pings []*pinging) []*pinging) {
		d.mu.Lock()
		defer d.mu.Unlock()
		pings := to(slices.Clone(d.pingsNow()))
		d.pings.Store(&pings)
	}
	change(func(pings []*pinging) []*pinging { return append(pings, p) })
	return func() {
		change(func(pings []*pinging) []*pinging {
			return slices.DeleteFunc(pings, func(one *pinging) bool { return one == p })
		})
	}
}

// pingsNow returns the pings that are under way.
func (d *dialer) pingsNow() []*pinging {
	if pings := d.pings.Load(); pings != nil {
		return *pings
	}
	return nil
}

// heard tells the pings that the server at addr has said something.
func (d *dialer) heard(addr string) {
	for _, p := range d.pingsNow() {
		if p.addr == "" || p.addr == addr {
			p.Heard()
		}
	}
}

// noMaintNotifications keeps a client from asking for pushed notifications, which
// come with protocol 3 only. go-redis writes into the user's configuration when
// their client connects, so it must not even be read.
func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// defaultDialer is the code of the Dialer that go-redis sets where the user gave
// none. Functions of the user do not share it.
var defaultDialer = sync.OnceValue(func() uintptr {
	c := redis.NewClient(&redis.Options{MaintNotificationsConfig: noMaintNotifications()})
	defer c.Close()
	return reflect.ValueOf(c.Options().Dialer).Pointer()
})

func isDefaultDialer(f func(context.Context, string, string) (net.Conn, error)) bool {
	return reflect.ValueOf(f).Pointer() == defaultDialer()
}

// keepAlive is that of go-redis's own dialer.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// dialDefault opens a connection as go-redis's default dialer does, but ends with ctx
// also during the TLS handshake. It calls began before that.
func dialDefault(ctx context.Context, network, addr string, config *tls.Config, timeout time.Duration, began func()) (net.Conn, error) {
	raw, err := (&net.Dialer{Timeout: timeout, KeepAliveConfig: keepAlive}).DialContext(ctx, network, addr)
	if err != nil || config == nil {
		return raw, err
	}
	began()
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		config = config.Clone()
		config.ServerName = host
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	t := tls.Client(raw, config)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = &tookTooLong{context.Cause(ctx)}
		}
		return nil, err
	}
	return t, nil
}

// A tookTooLong is an error that counts as a timeout, whatever it wraps.
type tookTooLong struct{ error }

// Timeout implements net.Error's method.
func (*tookTooLong) Timeout() bool { return true }
