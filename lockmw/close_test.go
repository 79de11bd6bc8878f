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
