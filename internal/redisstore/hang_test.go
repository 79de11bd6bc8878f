package redisstore

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/internal/store"
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
		return h.Conn.Write(b)
	}
}

func (h *hangs) Close() error {
	h.once.Do(func() { close(h.closed) })
	return h.Conn.Close()
}

// renewed renews r as a watchdog does until it gets through, and returns how long that
// took and how many attempts.
func (p *probe) renewed(r store.Ref) (took time.Duration, attempts int) {
	p.Helper()
	start := time.Now()
	for attempts = 1; ; attempts++ {
		timeout := min(min(r.TTL/6, time.Second)<<min(attempts-1, 1), time.Second)
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

// However a connection hangs while the server is well, one or all that are open: a
// renewal that is due, a third of the TTL after the last one, gets through in time.
func TestARenewalGetsThroughWhileConnectionsHang(t *testing.T) {
	server := redistest.Real(t)
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 30 * time.Second} {
		for how := losesReplies; how <= takesNothing; how++ {
			for _, all := range []bool{false, true} {
				for _, callers := range []int{0, 64} {
					if callers > 0 && ttl > time.Second {
						continue // it takes longer, and has more time
					}
					t.Run(fmt.Sprintf("%v, %v, all %v, %d callers", ttl, how, all, callers), func(t *testing.T) {
						if callers == 0 {
							t.Parallel() // it mostly waits; 64 callers keep the machine busy
						}
						getsThrough(t, server, ttl, how, all, callers)
					})
				}
			}
		}
	}
}

func getsThrough(t *testing.T, server *redistest.Server, ttl time.Duration, how hanging, all bool, callers int) {
	var mu sync.Mutex
	var conns []*hangs
	client := server.Client(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			h := &hangs{Conn: c, closed: make(chan struct{})}
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, h)
			return h, nil
		}
	})
	p := open(t, client, redistest.Prefix(t))
	r := p.ref(ttl)
	r.Told(p.get(r, store.Try))
	stop := make(chan struct{})
	var running sync.WaitGroup
	var turns atomic.Int64
	ask := func(name string) {
		other := store.Ref{Key: name, Token: p.NewToken(), TTL: time.Minute}
		if a, err := p.Acquire(context.Background(), store.Request{Ref: other, Join: store.Try}); err == nil {
			other.Told(a)
			_, _ = p.Release(context.Background(), other, false) // it may hang
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
	eventually(t, "the connections are warm", func() bool { return turns.Load() >= 80 })
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
	took, attempts := p.renewed(r)
	t.Logf("a renewal got through after %v, in attempt %d", took.Round(time.Millisecond), attempts)
	if most := ttl * 6 / 10; took > most || attempts > 3 {
		t.Errorf("a renewal got through after %v, in attempt %d, want %v and 3 at most", took, attempts, most)
	}
	close(stop)
	running.Wait()
}
