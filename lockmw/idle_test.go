package lockmw_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A server closes connections on which nothing was asked for a while, and the client
// does not see their end before it uses them: TLS keeps it from looking, or the end is
// on its way. All callers of the burst that finds out have their locks, without Wait,
// too.
func TestABurstFindsThatTheServerHasClosedItsConnections(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	const (
		rounds, burst = 3, 40

		connections = 1 + 1 // that many calls share, see internal/redisstore/wire, at least, and the subscription
	)
	for name, connect := range map[string]func(t *testing.T, p *faultproxy.Proxy) *redis.Client{
		"TLS": func(t *testing.T, p *faultproxy.Proxy) *redis.Client {
			t.Helper()
			addr, config := redistest.TLS(t, p.Addr())
			return redistest.NewClient(t, addr, func(o *redis.Options) { o.TLSConfig = config })
		},
		"far away": func(t *testing.T, p *faultproxy.Proxy) *redis.Client {
			t.Helper()
			way := faultproxy.Start(t, p.Addr())
			way.Delay(faultproxy.ToClient, 20*time.Millisecond)
			return redistest.NewClient(t, way.Addr())
		},
	} {
		for _, p := range []lockmw.Policy{{}, {FailOpen: true}, {Wait: 5 * time.Second}} {
			t.Run(fmt.Sprintf("%s Wait %v FailOpen %v", name, p.Wait, p.FailOpen), func(t *testing.T) {
				server := redistest.Shared(t)
				prefix := redistest.Prefix(t)
				proxy := faultproxy.Start(t, server.Addr())
				l := testenv.Open(t, connect(t, proxy))
				locked := 0
				for round, try := 0, 0; round < rounds; try++ {
					were, same := 0, 0
					await.Within(t, 20*time.Second, "all connections are there", func() bool {
						burstOf(burst, func(i int) { // what comes of them does not matter
							if _, lease, err := l.Acquire(context.Background(), fmt.Sprint(prefix, "warm", i), lockmw.Policy{Wait: time.Second}); err == nil {
								_ = lease.Release(context.Background())
							}
						})
						before := were
						if were = proxy.Connections(); were == before {
							same++
						}
						return were >= connections && same > 3 // none is being made
					})
					proxy.Cut()
					began := time.Now()
					var mu sync.Mutex
					var wrong []string
					burstOf(burst, func(i int) {
						_, lease, err := l.Acquire(context.Background(), fmt.Sprint(prefix, try, "-", i), p)
						mu.Lock()
						switch {
						case err != nil:
							wrong = append(wrong, err.Error())
						case lease.Fence() == 0:
							wrong = append(wrong, "ran without the lock")
						}
						mu.Unlock()
						if err == nil {
							_ = lease.Release(context.Background())
						}
					})
					// On a machine that stood still meanwhile it may have been an outage.
					if len(wrong) > 0 && try < 10*rounds && machine.Longest(began, time.Now()) >= 100*time.Millisecond {
						t.Logf("round %d once more, the machine stood still: %q", round, wrong)
						continue
					}
					if len(wrong) > 0 {
						t.Errorf("round %d: %q", round, wrong)
					}
					locked += burst - len(wrong)
					round++
				}
				t.Logf("%d of %d locked", locked, rounds*burst)
			})
		}
	}
}
