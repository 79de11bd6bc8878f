package locktest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

const key = "order:42"

// soon is how long a lock is waited for that must come at once.
const soon = 30 * time.Second

func acquire(t testing.TB, l *lockmw.Locker, key string, p lockmw.Policy) *lockmw.Lease {
	t.Helper()
	_, lease, err := l.Acquire(context.Background(), key, p)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return lease
}

// waiting starts a call of Acquire and returns, once it waits, where its lease
// will come.
func waiting(t *testing.T, l *lockmw.Locker, contended <-chan struct{}) <-chan *lockmw.Lease {
	t.Helper()
	leases := make(chan *lockmw.Lease, 1)
	go func() {
		_, lease, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: soon})
		if err != nil {
			t.Errorf("acquire: %v", err)
		}
		leases <- lease
	}()
	<-contended
	return leases
}

// contentions returns an option and where it tells of calls that begin to wait.
func contentions() (lockmw.Option, <-chan struct{}) {
	contended := make(chan struct{}, 10)
	return lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == lockmw.EventContended {
			contended <- struct{}{}
		}
	}), contended
}

// once is a flight whose work nobody does again after a crash.
var once = lockmw.Flight{Policy: lockmw.Policy{Prefix: "pay:", Wait: soon}, Retain: time.Hour, Crash: lockmw.Uncertain}

// pay calls Do with a function that runs work, if there is one, and returns answer.
func pay(l *lockmw.Locker, key, answer string, f lockmw.Flight, work func(ctx context.Context)) (got string, shared bool, err error) {
	return lockmw.Do(context.Background(), l, key, f, func(ctx context.Context) (string, error) {
		if work != nil {
			work(ctx)
		}
		return answer, nil
	})
}

func TestEveryLockerHasARedisOfItsOwn(t *testing.T) {
	a, b := locktest.New(t), locktest.New(t)
	acquire(t, a, key, lockmw.Policy{})
	acquire(t, b, key, lockmw.Policy{})
	if _, _, err := a.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("a second lock is %v, want %v", err, lockmw.ErrNotAcquired)
	}
}

func TestLocksExpireInRealTime(t *testing.T) {
	l := locktest.New(t)
	start := time.Now()
	lease := acquire(t, l, key, lockmw.Policy{TTL: time.Second, MaxHold: time.Millisecond})
	acquire(t, l, key, lockmw.Policy{Wait: soon})
	if took := time.Since(start); took < 300*time.Millisecond || took > 10*time.Second {
		t.Errorf("the lock of a holder who stopped renewing came free after %v, want its TTL", took)
	}
	if lease.Valid() {
		t.Error("the first lease is valid still")
	}
}

func TestTheEndClosesAll(t *testing.T) {
	var l *lockmw.Locker
	var lease *lockmw.Lease
	waited := make(chan error, 1)
	option, contended := contentions()
	said := try(t, func(t testing.TB) {
		l = locktest.New(t, option)
		lease = acquire(t, l, key, lockmw.Policy{})
		go func() {
			_, _, err := l.Acquire(context.Background(), key, lockmw.Policy{Retries: lockmw.Forever})
			waited <- err
		}()
		<-contended
		locktest.Hold(t, l, "other")
		if _, _, err := l.Acquire(context.Background(), "other", lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("acquire of a held key: %v, want %v", err, lockmw.ErrNotAcquired)
		}
	})
	if said != "" {
		t.Errorf("the test fails: %s", said)
	}
	if err := <-waited; !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("who waits gets %v, want %v", err, lockmw.ErrClosed)
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrReleased) {
		t.Errorf("who holds is told %v, want %v", cause, lockmw.ErrReleased)
	}
	if _, _, err := l.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("who comes later gets %v, want %v", err, lockmw.ErrClosed)
	}
}

func TestWrongOptionFailsTheTest(t *testing.T) {
	said := try(t, func(t testing.TB) { locktest.New(t, lockmw.WithMaxWaiters(0, 0)) })
	if !strings.Contains(said, "locktest: New: lockmw: WithMaxWaiters: perKey is 0") {
		t.Errorf("failure = %q", said)
	}
}

func TestOptionsAreTheLockers(t *testing.T) {
	var mu sync.Mutex
	kinds := make(map[lockmw.EventKind]int)
	l := locktest.New(t, lockmw.WithNamespace("mine"), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		mu.Lock()
		defer mu.Unlock()
		kinds[e.Kind]++
	}))
	locktest.Hold(t, l, key)()
	lease := acquire(t, l, key, lockmw.Policy{})
	locktest.Lose(t, l, key)
	_ = lease.Release(context.Background())
	locktest.Hold(t, l, key)
	await.Within(t, soon, "the loss is told, in the background", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return kinds[lockmw.EventLost] > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if kinds[lockmw.EventAcquired] != 1 || kinds[lockmw.EventLost] != 1 || kinds[lockmw.EventReleased] != 0 {
		t.Errorf("events: %v, want one acquired, one lost and none of Hold", kinds)
	}
}

func TestHeldKeyIsRefused(t *testing.T) {
	l := locktest.New(t)
	release := locktest.Hold(t, l, key)
	if _, _, err := l.Acquire(context.Background(), "42", lockmw.Policy{Prefix: "order:"}); !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("acquire of a held key: %v, want %v", err, lockmw.ErrNotAcquired)
	}
	acquire(t, l, key+"0", lockmw.Policy{})
	release()
	release()
	acquire(t, l, key, lockmw.Policy{})
}

func TestReleaseHandsOver(t *testing.T) {
	option, contended := contentions()
	l := locktest.New(t, option)
	for range 5 {
		release := locktest.Hold(t, l, key)
		leases := waiting(t, l, contended)
		start := time.Now()
		release()
		lease := <-leases
		if took := time.Since(start); took > 5*time.Second { // RetryInterval is a minute
			t.Errorf("who waits has the lock %v after the release", took)
		}
		if err := lease.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestHoldEndsWithItsTest(t *testing.T) {
	l := locktest.New(t)
	t.Run("sub", func(t *testing.T) {
		locktest.Hold(t, l, key)
		if _, _, err := l.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("acquire of a held key: %v, want %v", err, lockmw.ErrNotAcquired)
		}
	})
	acquire(t, l, key, lockmw.Policy{})
}

func TestHoldFailsTheTest(t *testing.T) {
	l := locktest.New(t)
	acquire(t, l, "order:held", lockmw.Policy{})
	acquire(t, l, "order:other", lockmw.Policy{})
	locktest.Lose(t, l, "order:other")
	locktest.Hold(t, l, "order:other")
	for key, want := range map[string]string{
		"order:held":             `Hold: the code under test holds "order:held"`,
		"order:other":            `Hold: "order:other" is taken: an earlier Hold`,
		"":                       "Hold: lockmw: acquire \"\": invalid key: empty",
		"{}":                     "invalid key: has the character '{'",
		strings.Repeat("a", 513): "invalid key: 513 bytes",
	} {
		if said := try(t, func(t testing.TB) { locktest.Hold(t, l, key) }); !strings.Contains(said, want) {
			t.Errorf("%.20q: failure = %q, want %q in it", key, said, want)
		}
	}
}

func TestLostLockIsToldAtOnce(t *testing.T) {
	l := locktest.New(t)
	for _, ttl := range []time.Duration{0, 100 * time.Millisecond, time.Hour} {
		lease := acquire(t, l, key, lockmw.Policy{TTL: ttl, Wait: 10 * time.Second}) // on a busy machine an answer may come too late for such a TTL
		start := time.Now()
		locktest.Lose(t, l, key)
		t.Logf("TTL %v: told within %v", ttl, time.Since(start))
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("TTL %v: told within %v, want 5 s at most", ttl, took)
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrLost) {
			t.Errorf("TTL %v: cause = %v, want %v", ttl, cause, lockmw.ErrLost)
		}
		next := acquire(t, l, key, lockmw.Policy{})
		if lease.Valid() || next.Fence() <= lease.Fence() {
			t.Errorf("TTL %v: valid %v, fence %d and then %d", ttl, lease.Valid(), lease.Fence(), next.Fence())
		}
		if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("TTL %v: release: %v, want %v", ttl, err, lockmw.ErrLost)
		}
		if err := next.Release(context.Background()); err != nil {
			t.Errorf("TTL %v: the next holder's release: %v", ttl, err)
		}
	}
}

// A renewal that is under way may have come to Redis before the loss, and then
// tells nothing of it.
func TestLossIsToldWhileARenewalIsUnderWay(t *testing.T) {
	l := locktest.New(t)
	for i := range 300 {
		lease := acquire(t, l, key, lockmw.Policy{})
		seam.RenewNow(l, key)
		time.Sleep(time.Duration(i) * time.Microsecond) // it takes about as long
		locktest.Lose(t, l, key)
		if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
			t.Fatalf("release: %v, want %v", err, lockmw.ErrLost)
		}
	}
}

func TestLoseByTheHolderItself(t *testing.T) {
	l := locktest.New(t)
	err := l.WithLock(context.Background(), key, lockmw.Policy{}, func(ctx context.Context) error {
		locktest.Lose(t, l, key)
		return context.Cause(ctx)
	})
	if !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("error = %v, want %v", err, lockmw.ErrLost)
	}
}

func TestLoseOfAWorkThatWasToldToStop(t *testing.T) {
	l := locktest.New(t)
	lease := acquire(t, l, key, lockmw.Policy{MaxHold: time.Millisecond})
	<-lease.Context().Done()
	locktest.Lose(t, l, key)
	if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("release: %v, want %v", err, lockmw.ErrLost)
	}
}

func TestLoseLeavesOtherLocksAlone(t *testing.T) {
	l := locktest.New(t)
	others := []*lockmw.Lease{acquire(t, l, key+"0", lockmw.Policy{}), acquire(t, l, key+":queue", lockmw.Policy{}), acquire(t, l, "p", lockmw.Policy{})}
	acquire(t, l, key, lockmw.Policy{})
	locktest.Lose(t, l, key)
	for _, lease := range others {
		if err := lease.Release(context.Background()); err != nil {
			t.Errorf("%s: release: %v", lease.Key(), err)
		}
	}
}

func TestWaitersKeepTheirPlacesInALoss(t *testing.T) {
	var handedOver atomic.Int32
	option, contended := contentions()
	l := locktest.New(t, option, lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == lockmw.EventHandedOver {
			handedOver.Add(1)
		}
	}))
	acquire(t, l, key, lockmw.Policy{})
	var line []<-chan *lockmw.Lease
	for range 8 {
		line = append(line, waiting(t, l, contended))
	}
	locktest.Lose(t, l, key)
	last := int64(0)
	for i, leases := range line {
		lease := <-leases
		if lease.Fence() < last {
			t.Errorf("number %d in the line was served before the one in front", i+1)
		}
		last = lease.Fence()
		_ = lease.Release(context.Background())
	}
	// The first finds a key that is free; Redis knows the others still. On a busy machine one or two ask just when they are handed it.
	if got, want := int(handedOver.Load()), len(line)-1; got > want || got < want-2 {
		t.Errorf("%d of the waiters were handed the lock, want %d", got, want)
	}
}

func TestLoseFailsTheTest(t *testing.T) {
	l := locktest.New(t)
	if said := try(t, func(t testing.TB) { locktest.Lose(t, l, key) }); said != `locktest: Lose: the code under test does not hold "order:42", nor any other key` {
		t.Errorf("failure = %q", said)
	}
	acquire(t, l, "42", lockmw.Policy{Prefix: "orders:"})
	released := acquire(t, l, "released", lockmw.Policy{})
	_ = released.Release(context.Background())
	acquire(t, l, "lost", lockmw.Policy{})
	locktest.Lose(t, l, "lost")
	release := locktest.Hold(t, l, "other")
	for _, key := range []string{key, "released", "lost", "other", ""} {
		want := `does not hold "` + key + `"; it holds ["orders:42"]`
		if said := try(t, func(t testing.TB) { locktest.Lose(t, l, key) }); !strings.Contains(said, want) {
			t.Errorf("failure = %q, want %q in it", said, want)
		}
	}
	release()
	acquire(t, l, "other", lockmw.Policy{})
}

func TestForeignLockerFailsTheTest(t *testing.T) {
	var over *lockmw.Locker
	try(t, func(t testing.TB) { over = locktest.New(t) })
	for name, f := range map[string]func(testing.TB, *lockmw.Locker){
		"Hold": func(t testing.TB, l *lockmw.Locker) { locktest.Hold(t, l, key) },
		"Lose": func(t testing.TB, l *lockmw.Locker) { locktest.Lose(t, l, key) },
		"Down": func(t testing.TB, l *lockmw.Locker) { locktest.Down(t, l) },
		"Up":   func(t testing.TB, l *lockmw.Locker) { locktest.Up(t, l) },
		"Keys": func(t testing.TB, l *lockmw.Locker) { locktest.Keys(t, l) },

		"Crash":        func(t testing.TB, l *lockmw.Locker) { locktest.Crash(t, l) },
		"Uncertain":    func(t testing.TB, l *lockmw.Locker) { locktest.Uncertain(t, l) },
		"AwaitWaiters": func(t testing.TB, l *lockmw.Locker) { locktest.AwaitWaiters(t, l, key, 1) },
	} {
		for _, l := range []*lockmw.Locker{nil, {}, over} {
			said := try(t, func(t testing.TB) { f(t, l) })
			if want := "locktest: " + name + ": the Locker is not from locktest.New, or its test is over"; said != want {
				t.Errorf("failure = %q, want %q", said, want)
			}
		}
	}
}

func TestParallelTestsDoNotMeet(t *testing.T) {
	var inside atomic.Int32
	t.Cleanup(func() {
		if n := inside.Load(); n != 8 {
			t.Errorf("%d tests held the key at the same time, want 8", n)
		}
	})
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			l := locktest.New(t)
			for range 10 {
				lease := acquire(t, l, key, lockmw.Policy{})
				locktest.Lose(t, l, key)
				locktest.Hold(t, l, key)()
				_ = lease.Release(context.Background())
			}
			acquire(t, l, key, lockmw.Policy{})
			inside.Add(1)
		})
	}
}
