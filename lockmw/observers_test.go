package lockmw_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// closesSoon closes l and fails the test if that takes long, or hangs.
func closesSoon(t *testing.T, l *lockmw.Locker) {
	t.Helper()
	closed, began := make(chan error, 1), time.Now()
	go func() { closed <- l.Close(over()) }()
	select {
	case err := <-closed:
		t.Logf("Close took %v", time.Since(began).Round(time.Millisecond))
		if err != nil {
			t.Errorf("Close = %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Close hangs")
	}
}

// works fails the test unless l locks a key soon.
func works(t *testing.T, l *lockmw.Locker, key string) {
	t.Helper()
	_, lease, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: 20 * time.Second})
	if err != nil {
		t.Error(err)
		return
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// A barrier is an observer that blocks at the first event of one kind about one
// key, until the test is over.
type barrier struct {
	met     atomic.Bool
	reached chan struct{}
	lifted  chan struct{}
}

func (b *barrier) option(kind lockmw.EventKind, key string) lockmw.Option {
	return lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == kind && e.Key == key && b.met.CompareAndSwap(false, true) {
			close(b.reached)
			<-b.lifted
		}
	})
}

// An observer that blocks holds up the call that it is told about: neither
// others of the key, nor those of other keys, nor Close.
func TestABlockedObserverHoldsUpOneCall(t *testing.T) {
	short := lockmw.Policy{TTL: 600 * time.Millisecond}
	// Each scenario brings the event about, in goroutines of its own where the
	// observer would block it, and leaves the key to others.
	for kind, scenario := range map[lockmw.EventKind]func(t *testing.T, l, other *lockmw.Locker, c *redis.Client, b *barrier){
		lockmw.EventContended: func(t *testing.T, l, other *lockmw.Locker, _ *redis.Client, b *barrier) {
			holder := mustAcquire(t, other, "k", lockmw.Policy{})
			waits := make(chan struct{})
			go func() { defer close(waits); works(t, l, "k") }()
			<-b.reached
			mustRelease(t, holder)
			select {
			case <-waits: // not even that one waits for the observer
			case <-time.After(15 * time.Second):
				t.Error("the waiter that was told of waits on")
			}
		},
		lockmw.EventRefused: func(t *testing.T, l, other *lockmw.Locker, _ *redis.Client, b *barrier) {
			holder := mustAcquire(t, other, "k", lockmw.Policy{})
			go func() { // a is given back before the observers hear of k
				_, _, err := l.AcquireAll(context.Background(), []string{"a", "k"}, lockmw.Policy{Wait: 10 * time.Millisecond})
				if !errors.Is(err, lockmw.ErrNotAcquired) {
					t.Errorf("err = %v", err)
				}
			}()
			<-b.reached
			works(t, other, "a")
			mustRelease(t, holder)
		},
		lockmw.EventReleased: func(t *testing.T, l, _ *lockmw.Locker, _ *redis.Client, b *barrier) {
			lease := mustAcquire(t, l, "k", lockmw.Policy{})
			go func() { _ = lease.Release(context.Background()) }()
			<-b.reached
			mustRelease(t, lease) // a second call does not wait for the observer
		},
		lockmw.EventRenewed: func(t *testing.T, l, _ *lockmw.Locker, _ *redis.Client, b *barrier) {
			lease, neighbour := mustAcquire(t, l, "k", short), mustAcquire(t, l, "n", short)
			<-b.reached
			<-time.After(2 * short.TTL)
			if !lease.Valid() || !neighbour.Valid() {
				t.Error("leases are not renewed while the observer blocks")
			}
			mustRelease(t, lease)
			mustRelease(t, neighbour)
		},
		lockmw.EventLost: func(t *testing.T, l, _ *lockmw.Locker, c *redis.Client, b *barrier) {
			lease := mustAcquire(t, l, "k", short)
			c.Del(context.Background(), "lock:{k}")
			<-b.reached
			if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
				t.Errorf("Release = %v", err)
			}
		},
		lockmw.EventStuck: func(t *testing.T, l, _ *lockmw.Locker, _ *redis.Client, b *barrier) {
			lease := mustAcquire(t, l, "k", lockmw.Policy{MaxHold: 10 * time.Millisecond})
			<-b.reached
			mustRelease(t, lease)
		},
	} {
		t.Run(kind.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *redistest.Mini) {
				b := &barrier{reached: make(chan struct{}), lifted: make(chan struct{})}
				defer close(b.lifted)
				c := m.Client(t)
				l, other := testenv.Open(t, c, b.option(kind, "k")), testenv.Open(t, m.Client(t))
				scenario(t, l, other, c, b)
				works(t, l, "k")
				works(t, l, "x")
				works(t, other, "k")
				closesSoon(t, l)
				noKeys(t, c, "lock", 5*time.Second)
			})
		})
	}
}

// A call that an observer holds up holds its lock meanwhile, and no longer than
// until Close.
func TestCloseTakesTheLockFromACallWhoseObserverBlocks(t *testing.T) {
	for _, keys := range [][]string{{"k"}, {"a", "k", "z"}} {
		t.Run(strings.Join(keys, ""), func(t *testing.T) {
			t.Parallel()
			b := &barrier{reached: make(chan struct{}), lifted: make(chan struct{})}
			c := redistest.Embedded(t).Client(t)
			l := testenv.Open(t, c, b.option(lockmw.EventAcquired, "k"))
			released := make(chan error)
			go func() {
				_, lease, err := l.AcquireAll(context.Background(), keys, lockmw.Policy{})
				if err == nil {
					err = lease.Release(context.Background())
				}
				released <- err
			}()
			<-b.reached
			closesSoon(t, l)
			noKeys(t, c, "lock", 5*time.Second)
			close(b.lifted)
			if err := <-released; !errors.Is(err, lockmw.ErrLost) {
				t.Errorf("the call's lease was released with %v, want ErrLost", err)
			}
		})
	}
}

// everyEvent has l meet many kinds of events, in two calls for one key.
func everyEvent(t *testing.T, l *lockmw.Locker, c *redis.Client) {
	t.Helper()
	first := mustAcquire(t, l, "k", lockmw.Policy{})
	if err := answered(func() error {
		_, _, err := l.Acquire(context.Background(), "k", lockmw.Policy{})
		return err
	}); !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("a second holder: %v", err)
	}
	handedOver := make(chan struct{})
	go func() { defer close(handedOver); works(t, l, "k") }()
	await.Within(t, 10*time.Second, "one waits", func() bool { return lockmw.Waiting(l, "k") == 1 })
	mustRelease(t, first)
	<-handedOver
	lost := mustAcquire(t, l, "k", lockmw.Policy{TTL: 400 * time.Millisecond})
	c.Del(context.Background(), "lock:{k}")
	<-lost.Context().Done()
	if err := lost.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Release of a lost lease = %v", err)
	}
	_, many, err := l.AcquireAll(context.Background(), []string{"a", "b"}, lockmw.Policy{Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, many)
}

// What an observer does wrong ends with the observer: callers see nothing of
// it, nothing stays held, and the log tells it once.
func TestAPanicOfAnObserverIsContained(t *testing.T) {
	var mu sync.Mutex
	var said strings.Builder
	logger := slog.New(slog.NewTextHandler(lockedWriter{&mu, &said}, nil))
	c := redistest.Embedded(t).Client(t)
	var seen events
	l := testenv.Open(t, c, lockmw.WithLogger(logger), seen.option(),
		lockmw.WithObserver(func(_ context.Context, e lockmw.Event) { panic("of the observer at " + e.Kind.String()) }), seen.option())
	everyEvent(t, l, c)
	closesSoon(t, l)
	noKeys(t, c, "lock", 5*time.Second)
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(said.String(), "panicked"); n != 1 || !strings.Contains(said.String(), "of the observer at acquired") {
		t.Errorf("the log tells of %d panics: %s", n, said.String())
	}
	if n := len(seen.of(lockmw.EventReleased)); n%2 != 0 || n < 8 {
		t.Errorf("the observers beside it saw %d releases, want two times 4", n)
	}
}

// lockedWriter is a writer for several goroutines.
type lockedWriter struct {
	mu *sync.Mutex
	w  *strings.Builder
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// An observer that ends the goroutine, as testing.T.FailNow does, leaves nobody
// to release the lease.
func TestGoexitInAnObserverReleasesTheLock(t *testing.T) {
	for _, keys := range [][]string{{"k"}, {"a", "k", "z"}} {
		t.Run(strings.Join(keys, ""), func(t *testing.T) {
			c := redistest.Embedded(t).Client(t)
			l := testenv.Open(t, c, lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
				if e.Kind == lockmw.EventAcquired && e.Key == "k" {
					runtime.Goexit()
				}
			}))
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _, err := l.AcquireAll(context.Background(), keys, lockmw.Policy{})
				t.Errorf("AcquireAll returned: %v", err)
			}()
			<-ended
			noKeys(t, c, "lock", 5*time.Second)
		})
	}
}

// A logger that panics is not told so.
type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool { panic("Enabled") }

func TestAPanicOfTheLoggerIsContained(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	l := testenv.Open(t, c, lockmw.WithLogger(slog.New(panickingHandler{})))
	everyEvent(t, l, c)
	closesSoon(t, l)
	noKeys(t, c, "lock", 5*time.Second)
}

// blockedHandler blocks at each line.
type blockedHandler struct {
	slog.Handler
	reached chan struct{}
	lifted  chan struct{}
}

func (h blockedHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h blockedHandler) Handle(context.Context, slog.Record) error {
	select {
	case h.reached <- struct{}{}:
	default:
	}
	<-h.lifted
	return nil
}

func TestABlockedLoggerHoldsUpNobody(t *testing.T) {
	h := blockedHandler{reached: make(chan struct{}, 1), lifted: make(chan struct{})}
	defer close(h.lifted)
	c := redistest.Embedded(t).Client(t)
	l := testenv.Open(t, c, lockmw.WithLogger(slog.New(h)))
	everyEvent(t, l, c)
	<-h.reached // a lease was lost, which the log tells
	everyEvent(t, l, c)
	closesSoon(t, l)
	noKeys(t, c, "lock", 5*time.Second)
}

// The events of a call come in their order, also where one is told in the
// background.
func TestTheEventsOfACallComeInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, m *redistest.Mini) { // a call waits for the background for 20 ms, in which a busy machine may do nothing
		c := m.Client(t)
		var mu sync.Mutex
		var kinds []lockmw.EventKind
		l := testenv.Open(t, c, lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
			if e.Kind == lockmw.EventContended { // which is told in the background
				time.Sleep(10 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			kinds = append(kinds, e.Kind)
		}))
		holder := mustAcquire(t, testenv.Open(t, c), "k", lockmw.Policy{})
		done := make(chan struct{})
		go func() { defer close(done); works(t, l, "k") }()
		await.Within(t, 10*time.Second, "it stands in the queue", func() bool { return queued(t, c, "k") == 1 })
		mustRelease(t, holder)
		<-done
		mu.Lock()
		defer mu.Unlock()
		kinds = slices.DeleteFunc(kinds, func(k lockmw.EventKind) bool { return k == lockmw.EventRenewed || k == lockmw.EventHandedOver })
		want := []lockmw.EventKind{lockmw.EventContended, lockmw.EventAcquired, lockmw.EventReleased}
		if !slices.Equal(kinds, want) {
			t.Errorf("events: %v, want %v", kinds, want)
		}
	})
}

// A lease that was lost is nothing to wait for.
func TestCloseDoesNotWaitForLostLeases(t *testing.T) {
	for name, p := range map[string]lockmw.Policy{
		"lost":          {},
		"over its hold": {MaxHold: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := redistest.InMemory(t).Client(t)
				l := testenv.Open(t, c)
				lease := mustAcquire(t, l, "k", p)
				if p.MaxHold == 0 {
					c.Del(context.Background(), "lock:{k}")
				}
				<-lease.Context().Done()
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				if err := l.Close(ctx); err != nil {
					t.Errorf("Close = %v", err)
				}
				if ctx.Err() != nil {
					t.Error("Close waited for a lease that nobody releases")
				}
				noKeys(t, c, "lock", 5*time.Second)
			})
		})
	}
}
