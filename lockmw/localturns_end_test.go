package lockmw_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A waiter's time is up at about the moment of the release: whoever comes next
// then gets its turn, and the lock is nobody's who has gone.
func TestTimeIsUpWhileTheLockIsPassedOn(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s, key := redistest.Shared(t), redistest.Prefix(t)
	c := s.Client(t)
	l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
	const rounds = 100
	overtaken := 0
	for range rounds {
		holder := mustAcquire(t, l, key, patient)
		got := make(chan string, 2)
		take := func(l *lockmw.Locker, name string) {
			lease := mustAcquire(t, l, key, patient)
			got <- name
			mustRelease(t, lease)
		}
		var hasty sync.WaitGroup
		var gone atomic.Bool // the hasty one
		end := time.Now().Add(10 * time.Millisecond)
		hasty.Go(func() {
			p := patient
			p.Wait = time.Until(end)
			_, lease, err := l.Acquire(context.Background(), key, p)
			gone.Store(true)
			if err == nil {
				mustRelease(t, lease)
			}
		})
		time.Sleep(time.Millisecond)
		go take(l, "first")
		await.Within(t, 5*time.Second, "it waits", func() bool {
			waiters := 2
			if gone.Load() {
				waiters = 1
			}
			return lockmw.Waiting(l, key) == waiters
		})
		time.Sleep(2 * time.Millisecond)
		go take(other, "second")
		await.Within(t, 5*time.Second, "it waits", func() bool { return lockmw.Waiting(other, key) == 1 })
		time.Sleep(time.Until(end))
		began := time.Now()
		mustRelease(t, holder)
		if <-got != "first" {
			overtaken++
		}
		<-got
		if took := time.Since(began); took > 2*time.Second+machine.Between(began, time.Now()) {
			t.Fatalf("nobody had the lock for %v", took)
		}
		hasty.Wait()
	}
	noKeys(t, c, key, 3*time.Second)
	t.Logf("%d of %d were overtaken", overtaken, rounds)
	if overtaken > rounds/10 { // a busy machine may let them come in another order
		t.Error("too many were overtaken")
	}
}

// A release offers the lock to the next waiter of the process. Where Redis has forgotten the lock by then nothing was handed to that one,
// so it has to ask at once, and not when it would have asked anyway.
func TestTheWaiterThatAFutileReleaseNamesAsksAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		l, c, key := testenv.Open(t, s.Client(t)), s.Client(t), "k"
		holder := mustAcquire(t, l, key, lockmw.Policy{TTL: 12 * time.Second, Wait: time.Second})
		got := make(chan *lockmw.Lease, 1)
		go func() { // for another TTL, so that Redis is told when the lock changes hands
			got <- mustAcquire(t, l, key, lockmw.Policy{TTL: time.Minute, Wait: 30 * time.Second, RetryInterval: 20 * time.Second})
		}()
		await.Until(t, "it waits", func() bool { return lockmw.Waiting(l, key) == 1 })
		if err := c.Del(t.Context(), "lock:{k}").Err(); err != nil {
			t.Fatal(err)
		}
		released := time.Now()
		if err := holder.Release(t.Context()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
		lease := await.Receive(t, "the lock", got)
		if took := time.Since(released); took > 100*time.Millisecond {
			t.Errorf("the waiter had the lock %v after the release", took)
		}
		mustRelease(t, lease)
	})
}

func TestALocalWaiterIsToldWhyItWasRefused(t *testing.T) {
	t.Parallel()
	l, key := testenv.Open(t, redistest.Shared(t).Client(t)), redistest.Prefix(t)
	holder := mustAcquire(t, l, key, lockmw.Policy{TTL: 12 * time.Second, Wait: time.Second})
	_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: 50 * time.Millisecond})
	var refusal *lockmw.AcquireError
	if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.As(err, &refusal) || !refusal.Queued {
		t.Fatalf("err = %+v", err)
	}
	if h := refusal.Holder; h == nil || h.Instance != l.Instance() || h.Age < 50*time.Millisecond || h.Left < 8*time.Second || h.Left > 12*time.Second {
		t.Errorf("Holder = %+v, want this Locker with a TTL of 12 s", h)
	}
	mustRelease(t, holder)
	holder = mustAcquire(t, l, key, lockmw.Policy{})
	_, _, err = l.Acquire(context.Background(), key, lockmw.Policy{})
	if !errors.As(err, &refusal) || refusal.Queued {
		t.Errorf("one attempt: err = %+v", err)
	}
	mustRelease(t, holder)
}

// Who waits behind others of its process that got no answer from Redis is told
// that Redis is away, not that somebody holds the lock.
func TestLocalWaitersLearnThatRedisIsSilent(t *testing.T) {
	for name, first := range map[string]time.Duration{"the first waits on": 2 * time.Second, "the first gives up": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				client, proxy := proxied(t, s)
				l := testenv.Open(t, client)
				mustRelease(t, mustAcquire(t, l, "k", patient))
				proxy.BlackHole(faultproxy.Both)
				var all sync.WaitGroup
				for i := range 10 {
					patience := 300 * time.Millisecond
					if i == 0 {
						patience = first
					}
					all.Go(func() {
						ctx, cancel := context.WithTimeout(context.Background(), patience)
						defer cancel()
						if _, _, err := l.Acquire(ctx, "k", lockmw.Policy{Wait: time.Minute}); !errors.Is(err, lockmw.ErrUnavailable) {
							t.Errorf("waiter %d: %v", i, err)
						}
					})
					await.Within(t, 5*time.Second, "it waits", func() bool { return lockmw.Waiting(l, "k") > 0 })
					time.Sleep(10 * time.Millisecond) // they come 10 ms apart
				}
				all.Wait()
			})
		})
	}
}

// While a process passes the lock on within itself, Redis hears that it lives:
// a reader of it that stands in the queue keeps its place.
func TestTurnsWithinAProcessKeepItsReadersPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		holder := mustAcquire(t, l, key, patient)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		come := func(l *lockmw.Locker, name string, mode lockmw.Mode, hold time.Duration) {
			before := lockmw.Waiting(l, key)
			all.Go(func() {
				p := patient
				p.Mode = mode
				lease := mustAcquire(t, l, key, p)
				if name != "" {
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
				}
				time.Sleep(hold)
				mustRelease(t, lease)
			})
			await.Within(t, 5*time.Second, "it waits", func() bool { return lockmw.Waiting(l, key) > before })
			time.Sleep(10 * time.Millisecond) // they come 10 ms apart
		}
		for range 35 { // longer than a process counts as alive
			come(l, "", lockmw.Exclusive, 100*time.Millisecond)
		}
		come(other, "1", lockmw.Exclusive, 0)
		come(l, "2", lockmw.Shared, 0)
		come(other, "3", lockmw.Exclusive, 300*time.Millisecond)
		mustRelease(t, holder)
		all.Wait()
		if !slices.IsSorted(order) {
			t.Errorf("served in the order %v", order)
		}
	})
}

func TestCloseEndsLocalWaiters(t *testing.T) {
	t.Parallel()
	s, key := redistest.Shared(t), redistest.Prefix(t)
	l := testenv.Open(t, s.Client(t))
	holder := mustAcquire(t, l, key, patient)
	refused := make(chan error, 3)
	for i := range cap(refused) {
		go func() {
			_, _, err := l.Acquire(context.Background(), key, patient)
			refused <- err
		}()
		await.Within(t, 5*time.Second, "it waits", func() bool { return lockmw.Waiting(l, key) == i+1 })
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close(context.Background()) }()
	for range cap(refused) {
		if err := <-refused; !errors.Is(err, lockmw.ErrClosed) {
			t.Errorf("err = %v", err)
		}
	}
	mustRelease(t, holder) // Close waits for it
	if err := <-closed; err != nil {
		t.Error(err)
	}
	noKeys(t, s.Client(t), key, time.Second)
}
