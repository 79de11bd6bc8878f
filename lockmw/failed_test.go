package lockmw_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

var errOops = errors.New("oops")

// A renewal after failed work asks for a shorter time than the one before, when the MinHold of
// that work was longer than the TTL. If its reply is lost, the lock may end that soon.
func TestALeaseIsTrustedNoLongerThanARenewalWithoutAReplyAskedFor(t *testing.T) {
	const ttl, minHold = time.Second, time.Minute
	for name, begin := range map[string]func(l *lockmw.Locker, key string) (*lockmw.Lease, func()){
		"its own": func(l *lockmw.Locker, key string) (*lockmw.Lease, func()) {
			lease := mustAcquire(t, l, key, lockmw.Policy{TTL: ttl, MinHold: minHold})
			return lease, func() {
				time.Sleep(2 * ttl) // it is renewed for the MinHold
				lease.MarkFailed()
			}
		},
		"of work that has joined it": func(l *lockmw.Locker, key string) (*lockmw.Lease, func()) {
			lease := mustAcquire(t, l, key, lockmw.Policy{TTL: ttl})
			return lease, func() {
				inner := lockmw.Policy{TTL: ttl, MinHold: minHold, Reentrant: true}
				_ = l.WithLock(lease.Context(), key, inner, func(context.Context) error {
					time.Sleep(2 * ttl) // it is renewed for the MinHold
					return errOops
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				client, proxy := proxied(t, s)
				cut, whole := testenv.Open(t, client), testenv.Open(t, s.Client(t))
				lease, fail := begin(cut, "k")
				fail()
				var once sync.Once
				proxy.Between(faultproxy.Match("evalsha"), func(_, _ []byte) {
					once.Do(func() { proxy.BlackHole(faultproxy.ToClient) })
				})
				_, next, err := whole.Acquire(t.Context(), "k", lockmw.Policy{TTL: ttl, Wait: 30 * time.Second})
				if err != nil {
					t.Fatalf("the renewal without a reply has not shortened the lock: %v", err)
				}
				if lease.Valid() || lease.Context().Err() == nil {
					t.Errorf("two holders: the first relies on it for %v more", time.Until(lease.ValidUntil()))
				}
				mustRelease(t, next)
				proxy.Heal()
				_ = lease.Release(t.Context())
			})
		})
	}
}

// Work that has failed after its lock was lost leaves nothing, either: here the replies to
// renewals are lost, so Redis has the key for the rest of the MinHold.
func TestWorkThatFailedAfterALossDoesNotKeepTheKey(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		client, proxy := proxied(t, s)
		l := testenv.Open(t, client)
		p := lockmw.Policy{TTL: time.Second, MinHold: 10 * time.Minute}
		err := l.WithLock(t.Context(), "k", p, func(ctx context.Context) error {
			proxy.BlackHole(faultproxy.ToClient)
			<-ctx.Done()
			proxy.Heal()
			return errOops
		})
		if !errors.Is(err, lockmw.ErrLost) {
			t.Fatal(err)
		}
		await.Within(t, 20*time.Second, "the key is free", func() bool { return !s.Exists("lock:{k}") })
	})
}
