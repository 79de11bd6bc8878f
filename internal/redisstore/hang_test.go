package redisstore

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// A hanging is how a connection hangs.
type hanging int32

const (
	well          hanging = iota
	losesReplies          // the server reads and answers, and nothing arrives
	losesCommands         // the server hears nothing, and everything seems to be written
	takesNothing          // nothing can be written, as if the server did not read
)

func (h hanging) String() string {
	return [...]string{"well", "loses replies", "loses commands", "takes nothing"}[h]
}

// A hangs is a connection that may hang. Like a real one it heeds read deadlines, and a
// write ends when it is closed.
type hangs struct {
	net.Conn
	delay  time.Duration // of each write, as of the way to the server
	how    atomic.Int32
	writes atomic.Int64
	closed chan struct{}
	once   sync.Once
}

func (h *hangs) Read(b []byte) (int, error) {
	for {
		n, err := h.Conn.Read(b)
		if err == nil && hanging(h.how.Load()) == losesReplies {
			continue
		}
		return n, err
	}
}

func (h *hangs) Write(b []byte) (int, error) {
	h.writes.Add(1)
	switch hanging(h.how.Load()) {
	case losesCommands:
		return len(b), nil
	case takesNothing:
		<-h.closed
		return 0, net.ErrClosed
	default:
		time.Sleep(h.delay)
		return h.Conn.Write(b)
	}
}

func (h *hangs) Close() error {
	h.once.Do(func() { close(h.closed) })
	return h.Conn.Close()
}

// firstAttempt is how long a watchdog waits for the first answer.
func firstAttempt(ttl time.Duration) time.Duration { return min(ttl/6, time.Second) }

// renewed renews r as a watchdog does until it gets through, and returns how long that
// took and how many attempts.
func (p *probe) renewed(r store.Ref) (took time.Duration, attempts int) {
	p.Helper()
	start := time.Now()
	for attempts = 1; ; attempts++ {
		timeout := min(firstAttempt(r.TTL)<<min(attempts-1, 1), time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		batch := []store.Renewal{{Ref: r}}
		p.Renew(ctx, batch)
		cancel()
		took = time.Since(start)
		switch {
		case batch[0].Held:
			return took, attempts
		case batch[0].Err == nil || took > patience:
			p.Errorf("the lease was lost after %v: %v", took, batch[0].Err)
			return took, attempts
		}
		time.Sleep(min(25*time.Millisecond<<min(attempts-1, 5), max(r.TTL/20, 25*time.Millisecond)))
	}
}

// A network is how a test's client gets to its server.
type network struct {
	server redistest.Backend
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	delay  time.Duration // of each write, as of the way to the server
}

// However a connection hangs while the server is well, one or all that are open: a
// renewal that is due, a third of the TTL after the last one, gets through while two
// thirds of the TTL are left. The first attempt may go over a connection that hangs, and
// take all of its time; the second one gets through. The clock is a bubble's, which does
// not go on while the machine is held up, so the bounds are close.
func TestARenewalGetsThroughWhileConnectionsHang(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 30 * time.Second} {
		eachHanging(t, ttl, func(t *testing.T, how hanging, all bool, callers int) {
			synctest.Test(t, func(t *testing.T) {
				m := redistest.InMemory(t)
				n := network{m, m.DialInMemory, 2 * time.Millisecond}
				took, attempts := n.getsThrough(t, ttl, how, all, callers)
				if most := firstAttempt(ttl) + ttl/10; took > most || attempts > 2 {
					t.Errorf("a renewal got through after %v, in attempt %d, want %v and 2 at most", took, attempts, most)
				}
			})
		})
	}
}

// The same with sockets. The clock is the machine's, which may be held up for a second. So
// the TTL is long, and it is the number of attempts that says whether the store has found
// out what hangs.
func TestARenewalGetsThroughWhileSocketsHang(t *testing.T) {
	slow.Test(t)
	server := redistest.Real(t)
	n := network{server, new(net.Dialer).DialContext, 0}
	const ttl = 30 * time.Second
	eachHanging(t, ttl, func(t *testing.T, how hanging, all bool, callers int) {
		if callers == 0 {
			t.Parallel() // it mostly waits; 64 callers keep the machine busy
		}
		took, attempts := n.getsThrough(t, ttl, how, all, callers)
		if took > ttl/2 || attempts > 3 {
			t.Errorf("a renewal got through after %v, in attempt %d, want %v and 3 at most", took, attempts, ttl/2)
		}
	})
}

// eachHanging runs test for each way to hang, of one connection or all, with or without
// others that ask meanwhile.
func eachHanging(t *testing.T, ttl time.Duration, test func(t *testing.T, how hanging, all bool, callers int)) {
	t.Helper()
	for how := losesReplies; how <= takesNothing; how++ {
		for _, all := range []bool{false, true} {
			for _, callers := range []int{0, 64} {
				t.Run(fmt.Sprintf("%v, %v, all %v, %d callers", ttl, how, all, callers), func(t *testing.T) {
					test(t, how, all, callers)
				})
			}
		}
	}
}

// getsThrough warms connections up and has one of them hang, or all. It returns how long
// a renewal took then, and how many attempts.
func (n network) getsThrough(t *testing.T, ttl time.Duration, how hanging, all bool, callers int) (took time.Duration, attempts int) {
	t.Helper()
	var mu sync.Mutex
	var conns []*hangs
	client := n.server.Client(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := n.dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			// No two have the same delay, or on a bubble's clock all would happen at one moment.
			h := &hangs{Conn: c, delay: n.delay + n.delay*time.Duration(len(conns))/64, closed: make(chan struct{})}
			conns = append(conns, h)
			return h, nil
		}
	})
	p := open(t, client, redistest.Prefix(t))
	r := p.ref(ttl)
	noteGrant(&r, p.get(r, store.Try))
	stop := make(chan struct{})
	var running sync.WaitGroup
	var turns atomic.Int64
	ask := func(name string) {
		other := store.Ref{Key: name, Token: p.NewToken(""), TTL: time.Minute}
		if a, err := p.Acquire(context.Background(), store.Request{Ref: other, Join: store.Try}); err == nil {
			noteGrant(&other, a)
			_, _, _ = p.Release(context.Background(), store.Give{Ref: other}) // it may hang
			turns.Add(1)
		}
	}
	for i := range max(callers, 4) {
		running.Go(func() {
			for turn := 0; callers > 0 || turn < 20; turn++ {
				select {
				case <-stop:
					return
				default:
					ask(fmt.Sprint("other ", i))
				}
			}
		})
	}
	if callers == 0 {
		running.Wait()
	}
	await.Until(t, "the connections are warm", func() bool { return turns.Load() >= 80 })
	p.renewed(r)
	mu.Lock()
	busiest := conns[0]
	for _, c := range conns {
		if c.writes.Load() > busiest.writes.Load() {
			busiest = c
		}
	}
	for _, c := range conns {
		if all || c == busiest {
			c.how.Store(int32(how))
		}
	}
	mu.Unlock()
	took, attempts = p.renewed(r)
	t.Logf("a renewal got through after %v, in attempt %d", took.Round(time.Millisecond), attempts)
	close(stop)
	running.Wait()
	return took, attempts
}
