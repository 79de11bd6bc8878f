package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// The Locker is closed while a handler is at work: its lease is released, and a lock
// that it asks for under that is refused because the server ends, which is nobody's
// mistake.
func TestLockUnderOneThatCloseHasReleasedIsRefusedAsClosed(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	ctx, _, err := l.Acquire(context.Background(), "a", lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close(over())
	if _, _, err := l.Acquire(ctx, "b", lockmw.Policy{}); !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("err = %v, want %v", err, lockmw.ErrClosed)
	}
}

// A Close that takes long says what it waits for, once, and with a bound.
func TestCloseLogsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(testenv.Journal)
		l := testenv.Open(t, redistest.InMemory(t).Client(t), log.Option())
		for i := range 10 {
			mustAcquire(t, l, fmt.Sprint("order:", i), lockmw.Policy{})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		closed := make(chan error)
		go func() { closed <- l.Close(ctx) }()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if log.Count("Close waits") != 0 {
			t.Errorf("after 4 s the log says\n%s", log.Text())
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if log.Count("Close waits", "held=10") != 1 || strings.Count(log.Text(), "order:") != 8 {
			t.Errorf("the log says\n%s", log.Text())
		}
	})
}

func TestCloseEndsWaitersAndLeases(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		var leases []*lockmw.Lease
		for i := range 100 {
			leases = append(leases, mustAcquire(t, l, fmt.Sprint(key, i), lockmw.Policy{}))
		}
		waiting := make(chan error)
		go func() {
			_, _, err := l.Acquire(context.Background(), key+"0", lockmw.Policy{Wait: time.Minute})
			waiting <- err
		}()
		await.Within(t, 5*time.Second, "queued", func() bool { return queued(t, c, key+"0") == 1 })

		ctx, end := context.WithCancel(context.Background())
		closed := make(chan error)
		go func() { closed <- l.Close(ctx) }()
		if err := <-waiting; !errors.Is(err, lockmw.ErrClosed) {
			t.Errorf("the waiter got %v", err)
		}
		for _, lease := range leases {
			if !lease.Valid() {
				t.Fatal("a lease ended before Close's context")
			}
		}
		ended := time.Now()
		end()
		if err := <-closed; unanswered(err, ended) { // its time for all that is left to be given back was over
			t.Logf("on a machine that stood still: %v", err)
			return
		} else if err != nil {
			t.Error(err)
		}
		for _, lease := range leases {
			if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrReleased) {
				t.Fatalf("cause = %v", cause)
			}
			if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) { // somebody else may have it
				t.Fatalf("Release after Close = %v", err)
			}
		}
		noKeys(t, c, key, 0)
		_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{})
		var refusal *lockmw.AcquireError
		if !errors.Is(err, lockmw.ErrClosed) || !errors.As(err, &refusal) || refusal.RetryAfter != time.Second {
			t.Errorf("after Close: %v", err)
		}
		if err := c.Ping(context.Background()).Err(); err != nil {
			t.Errorf("the user's client: %v", err)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

// A lease that is held while Close waits is renewed, and Close returns as soon
// as the last one is released.
func TestCloseWaitsForTheWork(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		renewed := make(chan struct{}, 100)
		l := testenv.Open(t, c, lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
			if e.Kind == lockmw.EventRenewed {
				renewed <- struct{}{}
			}
		}))
		lease := mustAcquire(t, l, key, lockmw.Policy{TTL: 6 * time.Second}) // which a machine that stands still does not use up
		closed := make(chan error, 1)
		go func() { closed <- l.Close(context.Background()) }()
		await.Within(t, 5*time.Second, "Close has begun", func() bool {
			_, early, err := l.Acquire(context.Background(), key+"2", lockmw.Policy{})
			if err == nil {
				mustRelease(t, early)
			}
			return errors.Is(err, lockmw.ErrClosed)
		})
		for i := range 6 {
			if i > 0 { // the first renewal comes by itself
				lockmw.RenewAll(l)
			}
			select {
			case <-renewed:
			case <-lease.Context().Done():
				t.Fatal("the lease ended while Close waits")
			}
		}
		select {
		case err := <-closed:
			t.Fatalf("Close = %v while a lock is held", err)
		default:
		}
		if !lease.Valid() {
			t.Error("the lease ended while Close waits")
		}
		mustRelease(t, lease)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		noKeys(t, c, key, 0)
	})
}

// A renewal prolongs the lock in Redis, and its reply does not come. So the lease ends while Redis has its lock for longer, and its work may never
// release it. The lock is there until the time that its holder was promised is over, and no longer.
func TestALockThatARenewalHasProlongedUnheardEndsWithItsPromise(t *testing.T) {
	const ttl = 3 * time.Second // renewed after a second
	for name, p := range map[string]lockmw.Policy{
		"no reply comes in time":   {TTL: ttl},
		"MaxHold ends the lease":   {TTL: ttl, MaxHold: 1500 * time.Millisecond},
		"the key is to stay taken": {TTL: ttl, MinHold: 500 * time.Millisecond},
	} {
		for _, closes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, Close %v", name, closes), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *redistest.Mini) {
					client, proxy := proxied(t, s)
					l, err := lockmw.New(client)
					if err != nil {
						t.Fatal(err)
					}
					earlier := mustAcquire(t, l, "another", lockmw.Policy{TTL: 300 * time.Millisecond})
					time.Sleep(time.Second) // Redis knows the script of renewals now
					mustRelease(t, earlier)
					lease := mustAcquire(t, l, "k", p)
					began := time.Now()
					time.Sleep(850 * time.Millisecond)
					proxy.BlackHole(faultproxy.ToClient)
					<-lease.Context().Done()
					proxy.Heal()
					if s.TTL("lock:{k}") < ttl/3 { // without it, a tenth would be left
						t.Fatal("no renewal has prolonged the lock")
					}
					closed := make(chan error, 1)
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					if closes {
						go func() { closed <- l.Close(ctx) }()
					}
					time.Sleep(time.Until(began.Add(ttl - 50*time.Millisecond)))
					if !s.Exists("lock:{k}") && (p.MaxHold == 0 || !closes) { // after MaxHold there is a lease that Close releases
						t.Error("the lock was free before its holder's time was over")
					}
					if closes {
						if err := <-closed; err != nil {
							t.Errorf("Close: %v", err)
						}
					} else {
						time.Sleep(100 * time.Millisecond)
					}
					if s.Exists("lock:{k}") {
						t.Error("Redis has the lock still")
					}
					if err := l.Close(ctx); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
			})
		}
	}
}

// Data of somebody else, where the queue would be, keeps Redis from carrying out the release. Close says that the lock is left.
func TestCloseTellsOfALockThatRedisRefusesToGiveBack(t *testing.T) {
	s := redistest.Embedded(t)
	l, err := lockmw.New(s.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	lease := mustAcquire(t, l, "k", lockmw.Policy{})
	if err := s.Set("lock:{k}:queue", "foreign"); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("Release: %v, want ErrUnavailable", err)
	}
	if err := l.Close(t.Context()); !errors.Is(err, lockmw.ErrUnavailable) || !s.Exists("lock:{k}") {
		t.Errorf("Close: %v, want ErrUnavailable: the lock is left (%v)", err, s.Exists("lock:{k}"))
	}
}

// Work whose lease is over is given time to stop, and Close does not cut that short: it waits for the end of that time while its own lasts, and tells of
// what is left. Nobody is told that the work was done.
func TestCloseLeavesALostLockToWorkThatMayStop(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		const ttl = time.Minute // its last tenth is given to the work
		client, proxy := proxied(t, s)
		l, err := lockmw.New(client)
		if err != nil {
			t.Fatal(err)
		}
		lease := mustAcquire(t, l, "k", lockmw.Policy{TTL: ttl})
		began := time.Now()
		proxy.BlackHole(faultproxy.Both)
		<-lease.Context().Done()
		proxy.Heal()
		other := testenv.Open(t, s.Client(t))
		if err := l.Close(t.Context()); !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("Close: %v, want ErrUnavailable: the lock is left", err)
		}
		_, _, err = other.Acquire(t.Context(), "k", lockmw.Policy{})
		if refusal, _ := lockmw.RefusalOf(err); refusal.Code != "LOCK_BUSY" {
			t.Errorf("while the work may stop: %v (%s), want LOCK_BUSY", err, refusal.Code)
		}
		time.Sleep(time.Until(began.Add(ttl)))
		mustRelease(t, mustAcquire(t, other, "k", lockmw.Policy{}))
	})
}

// Nested work has the key stay taken for longer. Redis has heard of that by a renewal whose answer did not come: it does so behind the loss, and behind
// Close, for which that is nothing to tell.
func TestCloseLeavesALostKeyToItsMinHold(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		const minHold = 20 * time.Second
		client, proxy := proxied(t, s)
		l, err := lockmw.New(client)
		if err != nil {
			t.Fatal(err)
		}
		earlier := mustAcquire(t, l, "another", lockmw.Policy{TTL: 300 * time.Millisecond})
		time.Sleep(time.Second) // Redis knows the script of renewals now
		mustRelease(t, earlier)
		lease := mustAcquire(t, l, "k", lockmw.Policy{TTL: 3 * time.Second})
		began := time.Now()
		_, nested, err := l.Acquire(lease.Context(), "k", lockmw.Policy{Reentrant: true, MinHold: minHold})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nested.Release(t.Context()) }()
		proxy.BlackHole(faultproxy.ToClient)
		<-lease.Context().Done()
		proxy.Heal()
		time.Sleep(3 * time.Second) // Redis answers again
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		time.Sleep(time.Until(began.Add(minHold - 100*time.Millisecond)))
		if !s.Exists("lock:{k}") {
			t.Error("the key did not stay taken for its MinHold")
		}
		time.Sleep(200 * time.Millisecond)
		if s.Exists("lock:{k}") {
			t.Error("the key stays taken for longer than its MinHold")
		}
	})
}
