package lockmw_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

const loading = "LOADING Redis is loading the dataset in memory"

// A wire is the network between a Locker and an in-memory Redis. What it loses are
// commands about locks: go-redis waits for the replies to others while it holds a
// mutex, and a bubble's clock stands then. Behind a lost command its connection carries
// nothing any more, or the next one's reply would be taken for the lost one's.
type wire struct {
	lost  atomic.Bool // what is sent gets lost
	hangs atomic.Bool // scripts do; pings are answered
}

type wireConn struct {
	net.Conn
	wire *wire
	dead atomic.Bool // a command was lost
}

func (c *wireConn) Write(p []byte) (int, error) {
	script, ping := bytes.Contains(p, []byte("eval")), bytes.Contains(p, []byte("exists"))
	if c.wire.lost.Load() && (script || ping) || c.wire.hangs.Load() && script {
		c.dead.Store(true)
	}
	if c.dead.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// wired is bubble with a wire.
func wired(t *testing.T, test func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker), opts ...lockmw.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, w := redistest.InMemory(t), new(wire)
		c := m.Client(t, func(o *redis.Options) {
			dial := o.Dialer
			o.PoolSize = 1000
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				for w.lost.Load() { // as the first packet is, again and again
					select {
					case <-time.After(10 * time.Millisecond):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				conn, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &wireConn{Conn: conn, wire: w}, nil
			}
		})
		test(t, w, m, testenv.Open(t, c, opts...))
	})
}

// took returns how long a call of Acquire takes, and what it gives.
func took(l *lockmw.Locker, key string, p lockmw.Policy) (time.Duration, *lockmw.Lease, error) {
	began := time.Now()
	_, lease, err := l.Acquire(context.Background(), key, p)
	return time.Since(began), lease, err
}

// wantOpen fails the test unless the lock is failed open after atLeast to atMost.
func wantOpen(t *testing.T, l *lockmw.Locker, p lockmw.Policy, atLeast, atMost time.Duration) {
	t.Helper()
	after, lease, err := took(l, "k", p)
	switch {
	case err != nil:
		t.Errorf("after %v: %v, want to run without the lock", after, err)
		return
	case lease.Fence() != 0:
		t.Errorf("locked after %v, want to run without the lock", after)
	case after < atLeast || after > atMost:
		t.Errorf("ran without the lock after %v, want %v to %v", after, atLeast, atMost)
	}
	mustRelease(t, lease)
}

// wantLocked fails the test unless the lock is taken within atMost.
func wantLocked(t *testing.T, l *lockmw.Locker, p lockmw.Policy, atMost time.Duration) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, lease, err := l.Acquire(context.Background(), "k", p)
		after := time.Since(began)
		locked := err == nil && lease.Fence() != 0
		if err == nil {
			mustRelease(t, lease)
		}
		if locked || after > atMost {
			if after > atMost {
				t.Errorf("not locked %v after Redis is back (err = %v)", after, err)
			}
			return
		}
	}
}

// wantUnavailable fails the test unless the lock is refused after atLeast to atMost.
func wantUnavailable(t *testing.T, l *lockmw.Locker, p lockmw.Policy, atLeast, atMost time.Duration, says ...string) {
	t.Helper()
	after, lease, err := took(l, "k", p)
	var refusal *lockmw.AcquireError
	if !errors.Is(err, lockmw.ErrUnavailable) || !errors.As(err, &refusal) || refusal.RetryAfter != time.Second {
		t.Errorf("after %v: %v, want ErrUnavailable", after, err)
		if err == nil {
			mustRelease(t, lease)
		}
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("err = %v, want it to say %q", err, text)
		}
	}
	if after < atLeast || after > atMost {
		t.Errorf("refused after %v, want %v to %v: %v", after, atLeast, atMost, err)
	}
}

// outages are the ways in which Redis cannot be reached, and the least time that
// it takes to be sure of it.
var outages = map[string]struct {
	begin func(*wire, *redistest.Mini)
	sure  time.Duration
}{
	"loading": {func(_ *wire, m *redistest.Mini) { m.SetError(loading) }, 0},
	"down":    {func(_ *wire, m *redistest.Mini) { m.SetError("CLUSTERDOWN The cluster is down") }, 0},
	"silent":  {func(w *wire, _ *redistest.Mini) { w.lost.Store(true) }, 250 * time.Millisecond},
}

func endOutage(w *wire, m *redistest.Mini) {
	m.SetError("")
	w.lost.Store(false)
}

func TestFailOpenWhileRedisIsAway(t *testing.T) {
	const most, later, back = time.Second, 50 * time.Millisecond, time.Second
	policies := map[string]struct {
		policy  lockmw.Policy
		atLeast time.Duration // it tries
		atMost  time.Duration
	}{
		"one attempt": {lockmw.Policy{}, 0, most},
		"Wait 2s":     {lockmw.Policy{Wait: 2 * time.Second}, 800 * time.Millisecond, most},
		"Wait 400ms":  {lockmw.Policy{Wait: 400 * time.Millisecond}, 300 * time.Millisecond, 400 * time.Millisecond},
		"Wait 20ms":   {lockmw.Policy{Wait: 20 * time.Millisecond}, 0, 350 * time.Millisecond},
		"Forever":     {lockmw.Policy{Retries: lockmw.Forever}, 800 * time.Millisecond, most},
		"Retries":     {lockmw.Policy{Retries: 2, RetryInterval: 150 * time.Millisecond}, 0, most},
	}
	for kind, o := range outages {
		for name, tc := range policies {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel() // each has a clock of its own
				wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
					p := tc.policy
					p.FailOpen = true
					mustRelease(t, mustAcquire(t, l, "k", p))
					o.begin(w, m)
					wantOpen(t, l, p, max(tc.atLeast, o.sure), tc.atMost)
					for range 10 { // until it is known
						_, lease, err := l.Acquire(context.Background(), "k", p)
						if err != nil {
							t.Fatal(err)
						}
						mustRelease(t, lease)
						time.Sleep(100 * time.Millisecond)
					}
					for range 20 {
						wantOpen(t, l, p, 0, later)
					}
					time.Sleep(time.Minute)
					wantOpen(t, l, p, 0, later)
					endOutage(w, m)
					wantLocked(t, l, p, back)
				})
			})
		}
	}
}

// Those who come after the first need not wait as long as that one.
func TestAllOfACrowdFailOpenWithTheFirst(t *testing.T) {
	for kind, o := range outages {
		t.Run(kind, func(t *testing.T) {
			wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
				p := lockmw.Policy{Wait: 2 * time.Second, FailOpen: true}
				mustRelease(t, mustAcquire(t, l, "k", p))
				o.begin(w, m)
				began := time.Now()
				var wg sync.WaitGroup
				for i := range 200 {
					wg.Go(func() {
						time.Sleep(time.Duration(i) * 4 * time.Millisecond) // the last one after 0.8 s
						wantOpen(t, l, p, 0, time.Second)
						if at := time.Since(began); at > 1250*time.Millisecond {
							t.Errorf("caller %d ran %v after the outage began", i, at)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// Work that has failed open keeps nobody from a job: a call of Once within it takes the lock, and another nested call joins it.
func TestOnceWithinWorkThatFailedOpen(t *testing.T) {
	for kind, o := range outages {
		t.Run(kind, func(t *testing.T) {
			wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
				opens := lockmw.Policy{FailOpen: true, Reentrant: true}
				mustRelease(t, mustAcquire(t, l, "k", opens))
				o.begin(w, m)
				ctx, outer, err := l.Acquire(context.Background(), "k", opens)
				if err != nil || outer.Fence() != 0 {
					t.Fatalf("Acquire = %v, %v, want a lease without a lock", outer, err)
				}
				job := lockmw.Policy{Reentrant: true}
				never := func(context.Context) error {
					t.Error("it ran")
					return nil
				}
				if ran, err := l.Once(ctx, "k", job, never); ran || !errors.Is(err, lockmw.ErrUnavailable) {
					t.Errorf("Once = %v, %v, want ErrUnavailable", ran, err)
				}
				if _, inner, err := l.Acquire(ctx, "k", job); err != nil || inner.Fence() != 0 {
					t.Errorf("a nested call: %v, %v, want that it joins", inner, err)
				} else {
					mustRelease(t, inner)
				}
				endOutage(w, m)
				wantLocked(t, l, lockmw.Policy{}, time.Minute)
				holder := mustAcquire(t, l, "k", lockmw.Policy{})
				if ran, err := l.Once(ctx, "k", job, never); ran || err != nil {
					t.Errorf("Once = %v, %v, though another has the lock", ran, err)
				}
				mustRelease(t, holder)
				if ran, err := l.Once(ctx, "k", job, func(context.Context) error { return nil }); !ran || err != nil {
					t.Errorf("Once = %v, %v, though the lock is free", ran, err)
				}
				mustRelease(t, outer)
			})
		})
	}
}

// Connections that hang while the server answers on others are no reason to run
// without the lock: somebody may hold it. Nor are slow scripts.
func TestConnectionsThatHangDoNotFailOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		policy lockmw.Policy
		want   error
	}{
		"one attempt": {lockmw.Policy{FailOpen: true}, lockmw.ErrUnavailable},
		"short wait":  {lockmw.Policy{FailOpen: true, Wait: 300 * time.Millisecond}, lockmw.ErrNotAcquired},
		"long wait":   {lockmw.Policy{FailOpen: true, Wait: 2 * time.Second}, lockmw.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			wired(t, func(t *testing.T, w *wire, _ *redistest.Mini, l *lockmw.Locker) {
				mustRelease(t, mustAcquire(t, l, "k", tc.policy))
				w.hangs.Store(true)
				if after, lease, err := took(l, "k", tc.policy); !errors.Is(err, tc.want) {
					t.Errorf("after %v: %v, %v, want %v", after, lease, err, tc.want)
				}
			})
		})
	}
}

func TestALongOutageRefusesAtOnce(t *testing.T) {
	for kind, o := range outages {
		t.Run(kind, func(t *testing.T) {
			wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
				p := lockmw.Policy{Wait: 2 * time.Second}
				mustRelease(t, mustAcquire(t, l, "k", p))
				began := time.Now()
				o.begin(w, m)
				said := "since " + began.UTC().Format(time.RFC3339)[:10] // the day, which is that of the bubble
				var waiting sync.WaitGroup
				for i := range 50 {
					waiting.Go(func() {
						time.Sleep(time.Duration(i) * 20 * time.Millisecond)
						p := p
						p.Wait = time.Hour
						wantUnavailable(t, l, p, 0, 1250*time.Millisecond, said)
						if at := time.Since(began); at > 1250*time.Millisecond {
							t.Errorf("told %v after the outage began", at)
						}
					})
				}
				forever := make(chan *lockmw.Lease, 1)
				go func() { forever <- mustAcquire(t, l, "k", lockmw.Policy{Retries: lockmw.Forever}) }()
				waiting.Wait()
				before := m.CommandCount()
				for range 1000 {
					wantUnavailable(t, l, p, 0, 250*time.Millisecond, said)
					time.Sleep(20 * time.Millisecond)
				}
				wantUnavailable(t, l, lockmw.Policy{}, 0, 250*time.Millisecond, said)
				if n := m.CommandCount() - before; n > 400 { // pings and the subscription, over new connections; not the 1,000 requests'
					t.Errorf("%d commands in 20 s of an outage", n)
				}
				select {
				case <-forever:
					t.Error("Forever did not wait")
				default:
				}
				healed := time.Now()
				endOutage(w, m)
				lease := <-forever
				if after := time.Since(healed); after > time.Second {
					t.Errorf("served %v after Redis is back", after)
				}
				mustRelease(t, lease)
				wantLocked(t, l, p, 0)
			})
		})
	}
}

func TestARestartIsWaitedThrough(t *testing.T) {
	for kind, o := range outages {
		for _, p := range []lockmw.Policy{{Wait: 2 * time.Second}, {Wait: 2 * time.Second, FailOpen: true}, {Retries: 20}} {
			t.Run(kind, func(t *testing.T) {
				wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
					mustRelease(t, mustAcquire(t, l, "k", p))
					o.begin(w, m)
					time.AfterFunc(500*time.Millisecond, func() { endOutage(w, m) })
					var wg sync.WaitGroup
					for _, key := range []string{"k", "k", "other"} {
						wg.Go(func() {
							after, lease, err := took(l, key, p)
							if err != nil || lease.Fence() == 0 {
								t.Errorf("after %v: %v", after, err)
								return
							}
							// A command that went out before it was known has its second.
							if after > 1500*time.Millisecond {
								t.Errorf("locked after %v", after)
							}
							mustRelease(t, lease)
						})
					}
					wg.Wait()
				})
			})
		}
	}
}

func TestClosingInAnOutage(t *testing.T) {
	for kind, o := range outages {
		t.Run(kind, func(t *testing.T) {
			wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
				o.begin(w, m)
				ended := make(chan error, 1)
				go func() {
					_, _, err := l.Acquire(context.Background(), "k", lockmw.Policy{Retries: lockmw.Forever})
					ended <- err
				}()
				time.Sleep(3 * time.Second)
				began := time.Now()
				if err := l.Close(over()); err != nil {
					t.Log(err)
				}
				if err := <-ended; !errors.Is(err, lockmw.ErrClosed) {
					t.Errorf("err = %v", err)
				}
				if took := time.Since(began); took > 2500*time.Millisecond {
					t.Errorf("Close took %v", took)
				}
			})
		})
	}
}

// Leases that hold nothing are as much the Locker's as others: Close waits for them
// until its context ends, and then ends their contexts.
func TestCloseEndsLeasesThatFailedOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, m *redistest.Mini) {
		l, err := lockmw.New(m.Client(t))
		if err != nil {
			t.Fatal(err)
		}
		m.SetError(loading)
		p := lockmw.Policy{FailOpen: true, Reentrant: true}
		open := []*lockmw.Lease{mustAcquire(t, l, "k", p)}
		time.Sleep(2 * time.Second) // away now: nobody asks
		for range 3 {
			open = append(open, mustAcquire(t, l, "k", p))
		}
		_, inner, err := l.Acquire(open[0].Context(), "k", lockmw.Policy{Reentrant: true, MaxHold: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		<-inner.Context().Done()
		mustRelease(t, inner)
		mustRelease(t, open[3]) // one of them less, and no other
		_, nested, err := l.Acquire(open[0].Context(), "k", p)
		if err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		began := time.Now()
		_ = l.Close(ctx)
		if waited := time.Since(began); waited < time.Minute {
			t.Errorf("Close waited for %v, want a minute", waited)
		}
		for i, lease := range open[:3] {
			if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrReleased) {
				t.Errorf("lease %d: the context's cause is %v after Close, want ErrReleased", i, cause)
			}
			mustRelease(t, lease) // no lock was lost
		}
		mustRelease(t, nested)
	})
}
