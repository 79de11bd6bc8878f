package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A Redis whose every answer takes less than 250 ms is there, also for a Locker that has no
// connections yet: nobody runs without a lock that another process holds.
func TestAFarRedisDoesNotFailOpen(t *testing.T) {
	for _, roundTrip := range []time.Duration{0, 120 * time.Millisecond, 160 * time.Millisecond, 200 * time.Millisecond, 240 * time.Millisecond} {
		for _, callers := range []int{1, 8} {
			for _, wait := range []time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond} {
				t.Run(fmt.Sprintf("%v, %d callers, Wait %v", roundTrip, callers, wait), func(t *testing.T) {
					t.Parallel() // each has a clock of its own
					inBubble(t, func(t *testing.T, m *redistest.Mini) {
						client, _ := farAway(t, m, callers, roundTrip)
						for start := range 2 {
							heldByOthers(t, testenv.Open(t, client), callers, start, lockmw.Policy{Wait: wait, FailOpen: true})
						}
					})
				})
			}
		}
	}
}

// farAway returns a client of a Redis that has locks k0, k1 and so on for as many callers,
// all held. Each answer takes a round trip, also that to a dial. No more connections can be
// made than accepts says.
func farAway(t *testing.T, m *redistest.Mini, callers int, roundTrip time.Duration) (client *redis.Client, accepts *atomic.Int64) {
	t.Helper()
	other := testenv.Open(t, m.Client(t))
	for i := range callers {
		mustAcquire(t, other, fmt.Sprint("k", i), lockmw.Policy{})
	}
	client, proxy := proxied(t, m)
	proxy.Delay(faultproxy.ToServer, roundTrip/2)
	proxy.Delay(faultproxy.ToClient, roundTrip/2)
	dial, accepts := client.Options().Dialer, new(atomic.Int64)
	accepts.Store(1000)
	client.Options().Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		time.Sleep(roundTrip)
		if accepts.Add(-1) < 0 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return dial(ctx, network, addr)
	}
	return client, accepts
}

// Where new connections are refused and those that are there are answered, Redis is there:
// as behind a service of Kubernetes whose Redis has failed its readiness probe. A Locker that is
// new has begun to make few connections by then.
func TestRefusedConnectionsDoNotFailOpenWhileOthersAreAnswered(t *testing.T) {
	for _, roundTrip := range []time.Duration{20 * time.Millisecond, 80 * time.Millisecond, 120 * time.Millisecond, 180 * time.Millisecond} {
		for _, callers := range []int{1, 8} {
			for _, wait := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond} {
				for _, more := range []int64{-1, 0, 1, 2} {
					t.Run(fmt.Sprintf("%v, %d callers, Wait %v, %d connections", roundTrip, callers, wait, more), func(t *testing.T) {
						t.Parallel() // each has a clock of its own
						inBubble(t, func(t *testing.T, m *redistest.Mini) {
							client, accepts := farAway(t, m, callers, roundTrip)
							l := testenv.Open(t, client)
							switch {
							case more < 0:
								mustRelease(t, mustAcquire(t, l, "free", lockmw.Policy{Wait: 10 * time.Second}))
								accepts.Store(0)
							case wait > 0:
								accepts.Store(2 + more)
							default:
								accepts.Store(1 + more)
							}
							heldByOthers(t, l, callers, 0, lockmw.Policy{Wait: wait, FailOpen: true})
							lease := mustAcquire(t, l, "free", lockmw.Policy{Wait: 10 * time.Second})
							if lease.Fence() == 0 {
								t.Error("no lock over the connections that are there")
							}
							mustRelease(t, lease)
						})
					})
				}
			}
		}
	}
}

// heldByOthers has callers ask for locks that others hold, each for one of its own, for a
// second. None may run.
func heldByOthers(t *testing.T, l *lockmw.Locker, callers, start int, p lockmw.Policy) {
	t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for time.Since(began) < time.Second {
				_, lease, err := l.Acquire(context.Background(), fmt.Sprint("k", i), p)
				switch {
				case err == nil:
					t.Errorf("start %d: a call runs without its lock after %v", start, time.Since(began))
					_ = lease.Release(context.Background())
					return
				case !errors.Is(err, lockmw.ErrNotAcquired) && !errors.Is(err, lockmw.ErrUnavailable):
					t.Errorf("start %d: %v", start, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	wg.Wait()
}
