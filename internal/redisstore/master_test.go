package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// A named is where the Dialer of a failover client leads.
type named struct {
	addr   atomic.Pointer[string]
	closed atomic.Bool // the client is
	away   atomic.Bool // the Sentinels are
	plain  atomic.Bool // the Dialer knows no Unix sockets
	mute   atomic.Bool // the master answers no dial
	hung   atomic.Pointer[hang]
	fails  atomic.Pointer[failure]
}

// A failure is what all Sentinels say.
type failure struct{ err error }

// A hang is a Sentinel that does not answer. go-redis goes on to the next one where
// its own time for an answer is over before that of the caller's context.
type hang struct {
	deaf  bool          // go-redis does not heed the context meanwhile, which is its default
	after time.Duration // its own time
	next  string        // whom the next Sentinel names
	end   chan struct{} // closed: the test is over
}

func (n *named) wait(ctx context.Context, h *hang) error {
	over := ctx.Done()
	if h.deaf {
		over = nil
	}
	select {
	case <-over:
		return ctx.Err()
	case <-h.end:
		return errOdd
	case <-time.After(h.after):
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	n.addr.Store(&h.next)
	n.hung.Store(nil)
	return nil
}

// sentinels returns a client like redis.NewFailoverClient's, and what its Sentinels say.
func sentinels(t *testing.T, addr string, config *tls.Config) (*redis.Client, *named) {
	t.Helper()
	n := new(named)
	n.addr.Store(&addr)
	client := redistest.NewClient(t, failoverAddr, func(o *redis.Options) {
		o.TLSConfig = config
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			if h := n.hung.Load(); h != nil {
				if err := n.wait(ctx, h); err != nil {
					return nil, err
				}
			}
			if f := n.fails.Load(); f != nil {
				return nil, f.err
			}
			switch {
			case n.closed.Load():
				return nil, redis.ErrClosed
			case n.away.Load(), n.plain.Load() && network != "tcp":
				return nil, errOdd
			case n.mute.Load() && network == "tcp":
				<-ctx.Done()
				return nil, ctx.Err()
			case config == nil:
				return (&net.Dialer{}).DialContext(ctx, network, *n.addr.Load())
			}
			return tls.DialWithDialer(&net.Dialer{}, network, *n.addr.Load(), config)
		}
	})
	return client, n
}

// follows has p, which leads to from, follow its Sentinels to to.
func follows(t *testing.T, p *probe, n *named, from, to *probe, addr string) {
	t.Helper()
	e := newEar()
	_, ended := p.listen(e)
	await.Receive(t, "Listening", e.listening)
	held := p.take()
	from.refused(from.ref(time.Minute), store.Try)
	p.renew(held, true)

	n.addr.Store(&addr)
	start := time.Now()
	if err := await.Receive(t, "the end of Listen", ended); err == nil {
		t.Error("Listen = nil, want an error")
	}
	t.Logf("followed after %v", time.Since(start))
	await.Until(t, "the lease is known to be lost", func() bool { // connections are closed one by one
		batch := []store.Renewal{{Ref: held}}
		p.Renew(t.Context(), batch)
		return batch[0].Err == nil && !batch[0].Held
	})
	next := p.take()
	to.refused(to.ref(time.Minute), store.Try)
	from.leave(held, false)
	if got := from.leave(next, false); got != store.NotHeld {
		t.Errorf("the old master: Release = %v, want %v", got, store.NotHeld)
	}
	p.hear()
	p.release(next, false, store.Freed)
}

// Sentinels that name nobody are not asked a second time by way of a connection: that is for a Dialer that knows no Unix sockets.
func TestSentinelsAreAskedByOneDial(t *testing.T) {
	for said, want := range map[error][]string{
		errors.New("redis: all sentinels specified in configuration are unreachable: dial tcp: i/o timeout"): {"unix"},
		errOdd: {"unix", "tcp"},
	} {
		m := new(master)
		var networks []string
		_, err := m.name(t.Context(), func(_ context.Context, network, _ string) (net.Conn, error) {
			networks = append(networks, network)
			return nil, said
		})
		if !errors.Is(err, said) || !slices.Equal(networks, want) {
			t.Errorf("%v, dialled %q, want %v and %q", err, networks, said, want)
		}
	}
}

// Where nobody was named as the first connection was made, it is seen all the same that another master is named later.
func TestTheFirstWhoIsNamedMayBeAnotherMaster(t *testing.T) {
	known := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6379}
	for addr, want := range map[string]bool{known.String(): false, "127.0.0.1:6380": true} {
		m := &master{
			none: true, known: known, late: make(chan string), hurry: make(chan struct{}), running: new(sync.WaitGroup),
			dialUsers: func(context.Context, string, string) (net.Conn, error) { return nil, redis.ErrClosed },
		}
		moved := false
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			m.watch(t.Context(), func() { moved = true })
		}()
		m.late <- addr
		await.Receive(t, "the end of watch, when nobody is left to ask", ended)
		m.running.Wait()
		if moved != want {
			t.Errorf("%s is named, and %v is known: another master: %v, want %v", addr, known, moved, want)
		}
	}
}

// A ping to a Cluster of which nothing is known waits for the function that says where its nodes are, and then for a node. The
// function may ask Sentinels, and its silence is not a server's.
func TestAPingKnowsWhetherItWaitsForSlots(t *testing.T) {
	for name, hangs := range map[string]bool{"ClusterSlots hangs": true, "the node hangs": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClusterClient(&redis.ClusterOptions{
				ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
					if hangs {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
				},
				Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
				MaintNotificationsConfig: noMaintNotifications(),
			})
			t.Cleanup(func() { _ = client.Close() })
			s := newStore(t, client)
			var forServer, told atomic.Bool
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_ = s.Ping(ctx, "k", store.Progress{Heard: func() {}, Waits: func(server bool) { told.Store(true); forServer.Store(server) }})
			if !told.Load() || forServer.Load() == hangs {
				t.Errorf("told: %v, it waits for the server: %v, want %v", told.Load(), forServer.Load(), !hangs)
			}
		})
	}
}

// A ClusterSlots that does not return holds up as many goroutines as look for another master at a time, however often that is.
func TestWhoLooksForAnotherMasterDoesNotPileUp(t *testing.T) {
	t.Parallel()
	end, first := make(chan struct{}), make(chan struct{}, 1)
	first <- struct{}{}
	var hung atomic.Int64
	addr := redistest.Embedded(t).Addr()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			select {
			case <-first:
			default:
				hung.Add(1)
				<-end
			}
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
		MaintNotificationsConfig: noMaintNotifications(),
	})
	t.Cleanup(func() { _ = client.Close() })
	t.Cleanup(func() { close(end) })
	s := newStore(t, client)
	if err := s.Ping(t.Context(), "k", store.Progress{Heard: func() {}, Waits: func(bool) {}}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if s.anotherMaster(t.Context(), "k", s.Server("k")) {
			t.Error("there is another master, though nobody says so")
		}
	}
	if n := hung.Load(); n == 0 || n > lookers {
		t.Errorf("%d look for another master, want at most %d", n, lookers)
	}
}

// Whatever is connected to a server that is the master no longer is cut off,
// though that server answers as ever.
func TestTheSentinelsMasterIsFollowed(t *testing.T) {
	slow.Test(t)
	for name, plain := range map[string]bool{"": false, "over a Dialer that knows no Unix sockets": true} {
		t.Run(name, func(t *testing.T) {
			a, b := redistest.Embedded(t), redistest.Embedded(t)
			ns := redistest.Prefix(t)
			client, n := sentinels(t, a.Addr(), nil)
			n.plain.Store(plain)
			p := open(t, client, ns)
			follows(t, p, n, open(t, a.Client(t), ns), open(t, b.Client(t), ns), b.Addr())
			await.Until(t, "nothing is left at the old one", func() bool { return a.CurrentConnectionCount() <= 2 }) // those of the test
		})
	}
}

// A ping that makes the first connection knows what it waits for: a Sentinel that hangs is not the server, whose silence it is
// where the master is named and does not answer, and where all Sentinels have been given up.
func TestAPingKnowsWhetherASentinelHangs(t *testing.T) {
	mini := redistest.Embedded(t)
	for name, tc := range map[string]struct {
		hangs     func(n *named, end chan struct{})
		forServer bool
	}{
		"a Sentinel hangs": {func(n *named, end chan struct{}) {
			n.hung.Store(&hang{deaf: true, after: time.Hour, end: end})
		}, false},
		"the master hangs": {func(n *named, _ chan struct{}) { n.mute.Store(true) }, true},
		"all Sentinels have been given up": {func(n *named, end chan struct{}) {
			n.hung.Store(&hang{deaf: true, after: time.Hour, end: end})
			time.AfterFunc(askEvery, func() { close(end) }) // it is heard of when somebody asks with all the time that it takes
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, n := sentinels(t, mini.Addr(), nil)
			end := make(chan struct{})
			tc.hangs(n, end)
			s := newStore(t, client)
			await.Until(t, "a ping tells what it waits for", func() bool {
				var forServer atomic.Bool
				ctx, cancel := context.WithTimeout(t.Context(), askEvery+300*time.Millisecond)
				defer cancel()
				_ = s.Ping(ctx, "k", store.Progress{Heard: func() {}, Waits: forServer.Store})
				return forServer.Load() == tc.forServer
			})
			if !tc.forServer {
				close(end)
			}
		})
	}
}

func TestTheSentinelsMasterIsFollowedWithTLS(t *testing.T) {
	slow.Test(t)
	a, b := redistest.Embedded(t), redistest.Embedded(t)
	ns := redistest.Prefix(t)
	front, config := redistest.TLS(t, a.Addr())
	other, trust := redistest.TLS(t, b.Addr())
	config.InsecureSkipVerify = true // two authorities
	_ = trust
	client, n := sentinels(t, front, config)
	p := open(t, client, ns)
	follows(t, p, n, open(t, a.Client(t), ns), open(t, b.Client(t), ns), other)
}

// Sentinels that are away do not matter to a master that is there.
func TestSentinelsMayBeAway(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	mini := redistest.Embedded(t)
	client, n := sentinels(t, mini.Addr(), nil)
	p := open(t, client, "kit")
	held := p.take()
	p.hear()
	n.away.Store(true)
	time.Sleep(3 * askEvery)
	p.renew(held, true)
	p.release(held, false, store.Freed)
}

// closeAll closes all open connections.
func (d *dialer) closeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeOpen()
}

// A Sentinel that hangs does not matter to a master that is there: go-redis stays with
// it, and dials nobody meanwhile.
func TestASentinelMayHang(t *testing.T) {
	for name, deaf := range map[string]bool{"and the context counts": false, "and go-redis does not heed the context": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mini := redistest.Embedded(t)
			client, n := sentinels(t, mini.Addr(), nil)
			p := open(t, client, "kit")
			held := p.take()
			end := make(chan struct{})
			defer close(end)
			n.hung.Store(&hang{deaf: deaf, after: time.Hour, end: end})
			p.dialer.closeAll() // new ones have to be made
			p.renewable(held)
			p.release(held, false, store.Freed)
		})
	}
}

// go-redis gives a Sentinel up only when that has not answered within go-redis's own
// time, which is longer than whoever waits for a lock has.
func TestASentinelThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	a, b := redistest.Embedded(t), redistest.Embedded(t)
	client, n := sentinels(t, a.Addr(), nil)
	p := open(t, client, "kit")
	held := p.take()
	n.hung.Store(&hang{after: 3 * time.Second, next: b.Addr()})
	await.Until(t, "the next Sentinel's master is followed", func() bool {
		batch := []store.Renewal{{Ref: held}}
		p.Renew(t.Context(), batch)
		return batch[0].Err == nil && !batch[0].Held
	})
}

// The first of three Sentinels, to which go-redis keeps, is stopped, and all connections
// to the master break.
func TestARealSentinelMayHang(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	w := redistest.Sentinel(t)
	first := w.SentinelServers()[0]
	client := w.Client(t, func(o *redis.FailoverOptions) { o.SentinelAddrs = []string{first.Addr()} })
	p := open(t, client, "kit")
	held := p.take()
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	do(t, w.Servers()[0].Client(t), "CLIENT", "KILL", "TYPE", "normal")
	p.renewable(held)
	t.Logf("renewed after %v", time.Since(began))
	await.Until(t, "the user's client connects, too", func() bool {
		c, err := client.Options().Dialer(t.Context(), "tcp", failoverAddr)
		if err == nil {
			err = c.Close()
		}
		return err == nil
	})
	t.Logf("the Sentinel was given up after %v", time.Since(began))
	p.release(held, false, store.Freed)
}

// renewable waits until r's lock can be renewed.
func (p *probe) renewable(r store.Ref) {
	p.Helper()
	await.Until(p, "the lease is renewed", func() bool {
		batch := []store.Renewal{{Ref: r}}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p.Renew(ctx, batch)
		return batch[0].Err == nil && batch[0].Held
	})
}

// A client that its user has closed asks no Sentinels.
func TestAClosedFailoverClientDoesNotMatter(t *testing.T) {
	mini := redistest.Embedded(t)
	front, config := redistest.TLS(t, mini.Addr())
	for name, c := range map[string]struct {
		addr   string
		config *tls.Config
	}{"plain": {mini.Addr(), nil}, "TLS": {front, config}} {
		t.Run(name, func(t *testing.T) {
			client, n := sentinels(t, c.addr, c.config)
			p := open(t, client, redistest.Prefix(t))
			held := p.take()
			n.closed.Store(true)
			p.dialer.closeAll() // new ones have to be made
			p.renewable(held)
			p.hear()
			p.release(held, false, store.Freed)
			p.take()
		})
	}
}

func TestAFailoverClientThatWasClosedBeforeSaysSo(t *testing.T) {
	client, n := sentinels(t, nobody(t), nil)
	n.closed.Store(true)
	p := open(t, client, "kit")
	_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
	if e := store.AsError(err); !e.Permanent || e.Ambiguous || !errors.Is(err, redis.ErrClosed) {
		t.Errorf("Acquire = %+v, want an error that stays and names the closed client", e)
	}
}

// Where Sentinels lead to a replica, nothing is asked.
func TestAReplicaIsRefused(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	w := redistest.Sentinel(t)
	client, _ := sentinels(t, w.Servers()[1].Addr(), nil)
	p := open(t, client, redistest.Prefix(t))
	_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
	if e := store.AsError(err); !errors.Is(err, errReplica) || e.Ambiguous || e.Evidence != store.Answered {
		t.Errorf("Acquire = %+v, want %v", e, errReplica)
	}
}

// A server that is busy does not say what it is. That is asked again: a replica that is
// behind does not know of a lock that is held.
func TestABusyReplicaIsRefusedLater(t *testing.T) {
	t.Parallel()
	w := redistest.Sentinel(t, redistest.Args("--busy-reply-threshold", "10"))
	replica := w.Servers()[1]
	client, _ := sentinels(t, replica.Addr(), nil)
	p := open(t, client, "kit")
	ask := func() error {
		_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
		return err
	}
	raw := replica.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	ended := make(chan error, 1)
	go func() { ended <- raw.Eval(context.Background(), "while true do end", nil).Err() }()
	await.Until(t, "it is busy", func() bool {
		return strings.Contains(fmt.Sprint(ask()), "BUSY")
	})
	do(t, raw, "SCRIPT", "KILL")
	await.Receive(t, "the end of the script", ended)
	if err := ask(); !errors.Is(err, errReplica) {
		t.Errorf("Acquire = %v, want %v", err, errReplica)
	}
}

// The master freezes, its replica takes over, and the old one goes on as if nothing
// had been.
func TestAFrozenMasterIsNotGoneBackTo(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	w := redistest.Sentinel(t, redistest.DownSoon())
	client := w.Client(t)
	p := open(t, client, "kit")
	held := p.take()
	p.hear()
	old := w.Servers()[0]
	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the user's client follows", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		return client.Set(ctx, "there", "", time.Minute).Err() == nil
	})
	followed := time.Now()
	if err := old.Cont(); err != nil {
		t.Fatal(err)
	}
	raw := w.Servers()[1].Client(t)
	do(t, raw, "DEL", p.keys("k")[0]) // had it not reached the replica
	await.Until(t, "the lease is known to be lost", func() bool {
		batch := []store.Renewal{{Ref: held}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p.Renew(ctx, batch)
		return batch[0].Err == nil && !batch[0].Held
	})
	for locks := 0; ; locks++ {
		next := store.Ref{Key: fmt.Sprint("next", locks), Token: p.NewToken(""), TTL: time.Minute}
		a, err := p.Acquire(t.Context(), store.Request{Ref: next})
		if err == nil && a.Granted && raw.Exists(t.Context(), p.keys(next.Key)[0]).Val() == 1 || time.Since(followed) > patience {
			break
		}
	}
	took := time.Since(followed)
	t.Logf("locks follow %v after the user's client", took)
	if took > 15*time.Second { // a second, on a machine that is busy
		t.Errorf("locks follow %v after the user's client, want a second", took)
	}
}

// What redis.NewFailoverClusterClient returns asks Sentinels for its slots.
func TestTheMasterOfAFailoverClusterIsFollowed(t *testing.T) {
	slow.Test(t)
	a, b := redistest.Embedded(t), redistest.Embedded(t)
	ns := redistest.Prefix(t)
	n := new(named)
	first := a.Addr()
	n.addr.Store(&first)
	slots := func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: *n.addr.Load()}}}}, nil
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: slots, MaintNotificationsConfig: noMaintNotifications(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(addr) // go-redis loses the host of a loopback address
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
		},
	})
	defer client.Close()
	p := open(t, client, ns)
	own := p.client.(*redis.ClusterClient)
	p.dialer.followSlots(slots, func() { own.ReloadState(context.Background()) })
	follows(t, p, n, open(t, a.Client(t), ns), open(t, b.Client(t), ns), b.Addr())
}

func TestSlotsFromSentinelsAreTold(t *testing.T) {
	client := redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{nobody(t)}})
	defer client.Close()
	if !asksSentinels(client.Options().ClusterSlots) {
		t.Error("Sentinels' slots count as the user's")
	}
	if asksSentinels(func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil }) {
		t.Error("the user's slots count as Sentinels'")
	}
}
