package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// onEachServer runs test with Lockers on each kind of server, also over a connection alone, and with an observer that takes its time.
func onEachServer(t *testing.T, test func(t *testing.T, lockers []*lockmw.Locker, key string)) {
	t.Helper()
	for name, client := range map[string]func(*testing.T) redis.UniversalClient{
		"redis":    func(t *testing.T) redis.UniversalClient { return redistest.Real(t).Client(t) },
		"Cluster":  func(t *testing.T) redis.UniversalClient { return redistest.Cluster(t).Client(t) },
		"Sentinel": func(t *testing.T) redis.UniversalClient { return redistest.Sentinel(t).Client(t) },
		"a pool of one": func(t *testing.T) redis.UniversalClient {
			return redistest.NewClient(t, redistest.Real(t).Addr(), func(o *redis.Options) { o.PoolSize = 1 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			slowly := lockmw.WithObserver(func(context.Context, lockmw.Event) { time.Sleep(time.Millisecond) })
			test(t, []*lockmw.Locker{testenv.Open(t, c), testenv.Open(t, c, slowly), testenv.Open(t, c)}, redistest.Prefix(t))
		})
	}
}

// Work whose process loses track of it is told as uncertain to all who have waited for it, and is done once more if somebody says so. All get that answer.
func TestUncertainWorkOnEachServer(t *testing.T) {
	onEachServer(t, func(t *testing.T, lockers []*lockmw.Locker, key string) {
		began, goOn := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			_, _, err := lockmw.Do(context.Background(), lockers[0], key, uncertain, func(context.Context) (string, error) {
				close(began)
				<-goOn
				return "", lockmw.ErrUncertain
			})
			if !errors.Is(err, lockmw.ErrUncertain) {
				t.Errorf("the owner: %v", err)
			}
		})
		<-began
		for i := range 29 {
			all.Go(func() {
				answer, shared, err := lockmw.Do(context.Background(), lockers[i%3], key, uncertain, pays("again"))
				if answer != "" || shared || !errors.Is(err, lockmw.ErrUncertain) {
					t.Errorf("Do = %q, %v, %v, want ErrUncertain", answer, shared, err)
				}
			})
		}
		await.Until(t, "all the others wait", func() bool {
			waiting := 0
			for _, l := range lockers {
				waiting += l.Stats().Names[uncertain.Policy.Name].Waiting
			}
			return waiting == 29
		})
		close(goOn)
		all.Wait()
		var info lockmw.Info
		await.Until(t, "Inspect says that it is uncertain", func() bool { // the owner's call may end before Redis has heard it
			var err error
			if info, err = lockers[1].Inspect(context.Background(), key); err != nil {
				t.Fatal(err)
			}
			return info.Answer != nil && info.Answer.State == lockmw.AnswerUncertain
		})
		if err := lockers[2].Resolve(context.Background(), key, info.Answer.Work, lockmw.Again); err != nil {
			t.Fatal(err)
		}
		m := &maker{takes: 100 * time.Millisecond}
		for i := range 30 {
			all.Go(func() {
				if answer, _, err := lockmw.Do(context.Background(), lockers[i%3], key, uncertain, m.make); answer != "answer 1" || err != nil {
					t.Errorf("Do = %q, %v", answer, err)
				}
			})
		}
		all.Wait()
	})
}

// One answer for all holds on each kind of server.
func TestOneAnswerOnEachServer(t *testing.T) {
	onEachServer(t, func(t *testing.T, lockers []*lockmw.Locker, key string) {
		m := &maker{takes: 300 * time.Millisecond}
		f := retained(time.Minute)
		var all sync.WaitGroup
		for i := range 90 {
			all.Go(func() {
				answer, _, err := lockmw.Do(context.Background(), lockers[i%3], key, f, m.make)
				if err != nil || answer != "answer 1" {
					t.Errorf("Do = %q, %v", answer, err)
				}
			})
		}
		all.Wait()
		if answer, shared, err := lockmw.Do(context.Background(), lockers[0], key, f, m.make); answer != "answer 1" || !shared || err != nil {
			t.Errorf("Do later = %q, %v, %v", answer, shared, err)
		}
		if n := m.runs.Load(); n != 1 {
			t.Errorf("%d runs", n)
		}
	})
}

// A Redis without memory keeps no answer: the caller has it, the lock is free, and the log says so.
func TestAnAnswerThatRedisRefuses(t *testing.T) {
	s := redistest.Real(t)
	c := s.Client(t)
	var log logBuffer
	l := testenv.Open(t, c, log.option())
	var runs atomic.Int64
	work := func(context.Context) (string, error) {
		runs.Add(1)
		c.ConfigSet(context.Background(), "maxmemory", "1")
		return "answer", nil
	}
	answer, shared, err := lockmw.Do(context.Background(), l, "k", retained(time.Minute), work)
	if answer != "answer" || shared || err != nil {
		t.Errorf("Do = %q, %v, %v", answer, shared, err)
	}
	if held := c.Exists(context.Background(), "lock:{k}").Val(); held != 0 {
		t.Error("the lock is held still")
	}
	await.Until(t, "the log says so", func() bool { return strings.Contains(strings.Join(log.lines(), " "), "an answer is not kept") })
	c.ConfigSet(context.Background(), "maxmemory", "0")
	if _, shared, err := lockmw.Do(context.Background(), l, "k", retained(time.Minute), work); shared || err != nil || runs.Load() != 2 {
		t.Errorf("Do = %v, %v after %d runs, want that it does the work again", shared, err, runs.Load())
	}
	c.ConfigSet(context.Background(), "maxmemory", "0")
}

// While a Cluster moves the lock's slot no answer can be kept. It is tried for a TTL, and others have the lock then.
func TestAnAnswerInASlotThatMoves(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	client := c.Client(t)
	key := "k"
	l, other := testenv.Open(t, client), testenv.Open(t, client)
	f := retained(time.Minute)
	f.Policy.TTL = 2 * time.Second
	began := time.Now()
	answer, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (string, error) {
		moves(t, c, "lock:{"+key+"}")
		return "answer", nil
	})
	if took := time.Since(began); answer != "answer" || err != nil || took > 3*time.Second {
		t.Errorf("Do = %q, %v after %v", answer, err, took)
	}
	_, lease, err := other.Acquire(context.Background(), key, lockmw.Policy{Wait: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("another call had the lock after %v, want that it has it when a TTL is over", took)
	}
	mustRelease(t, lease)
}

// moves has a Cluster's slot in migration, without its keys being moved, until the test ends or end is called: then it stays where it is.
func moves(t *testing.T, c *redistest.Shards, key string) (end func()) {
	t.Helper()
	ctx := context.Background()
	owner, err := c.Owner(ctx, key)
	if err != nil {
		t.Error(err)
		return func() {}
	}
	from, to := owner.Client(t), c.Other(owner).Client(t)
	number := from.ClusterKeySlot(ctx, key).Val()
	set := func(ofTo, ofFrom []any) {
		t.Helper()
		slot := []any{"CLUSTER", "SETSLOT", number}
		if err := errors.Join(to.Do(ctx, append(slot[:3:3], ofTo...)...).Err(), from.Do(ctx, append(slot[:3:3], ofFrom...)...).Err()); err != nil {
			t.Error(err)
		}
	}
	set([]any{"IMPORTING", from.ClusterMyID(ctx).Val()}, []any{"MIGRATING", to.ClusterMyID(ctx).Val()})
	return func() { set([]any{"STABLE"}, []any{"STABLE"}) }
}

// A call that does not wait has an answer that is kept, and is refused while one is made.
func TestACallThatDoesNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		once := retained(time.Minute)
		once.Policy.Wait = 0
		m := &maker{takes: time.Second}
		done := make(chan error, 1)
		go func() {
			_, _, err := lockmw.Do(context.Background(), l, key, once, m.make)
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		for _, by := range []*lockmw.Locker{l, other} {
			if _, _, err := lockmw.Do(context.Background(), by, key, once, m.make); !errors.Is(err, lockmw.ErrNotAcquired) {
				t.Errorf("Do while it is made = %v, want ErrNotAcquired", err)
			}
		}
		if err := await.Receive(t, "the first one", done); err != nil {
			t.Error(err)
		}
		for _, by := range []*lockmw.Locker{l, other} {
			if answer, shared, err := lockmw.Do(context.Background(), by, key, once, m.make); answer != "answer 1" || !shared || err != nil {
				t.Errorf("Do later = %q, %v, %v", answer, shared, err)
			}
		}
	})
}

// Retries bound the wait for another call of the process as they bound that for the lock.
func TestRetriesBoundACall(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		f := flight
		f.Policy.Wait, f.Policy.Retries, f.Policy.RetryInterval = 0, 3, 100*time.Millisecond
		m := &maker{takes: 2 * time.Second}
		done := make(chan error, 1)
		go func() {
			_, _, err := lockmw.Do(context.Background(), l, key, f, m.make)
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		_, _, err := lockmw.Do(context.Background(), l, key, f, m.make)
		if took := time.Since(began); !errors.Is(err, lockmw.ErrNotAcquired) || took < 200*time.Millisecond || took > time.Second {
			t.Errorf("Do = %v after %v, want a refusal after 300 ms", err, took)
		}
		if err := await.Receive(t, "the first one", done); err != nil {
			t.Error(err)
		}
	})
}

// An answer that is kept is found at once, also while another call of the same process has the lock and wants no answer.
func TestAnAnswerBehindAHolderOfTheSameProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		m := new(maker)
		if _, _, err := lockmw.Do(context.Background(), l, key, retained(time.Hour), m.make); err != nil {
			t.Fatal(err)
		}
		lease := mustAcquire(t, l, key, lockmw.Policy{Wait: time.Second})
		waits := make(chan error, 1)
		go func() {
			_, lease, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: time.Minute})
			if err == nil {
				err = lease.Release(context.Background())
			}
			waits <- err
		}()
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		answer, shared, err := lockmw.Do(context.Background(), l, key, retained(time.Hour), m.make)
		if took := time.Since(began); answer != "answer 1" || !shared || err != nil || took > 10*time.Millisecond {
			t.Errorf("Do = %q, %v, %v after %v, want the answer at once", answer, shared, err, took)
		}
		mustRelease(t, lease)
		if err := await.Receive(t, "who waits", waits); err != nil {
			t.Error(err)
		}
	})
}

// Calls that wait for another one of their process count as waiters: there is a bound, and Stats know them.
func TestCallsThatWaitForOthersAreWaiters(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t), lockmw.WithMaxWaiters(3, 5))
		f := flight
		f.Policy.Name = "report"
		m := &maker{takes: time.Second}
		var full, answered atomic.Int64
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				switch _, _, err := lockmw.Do(context.Background(), l, key, f, m.make); {
				case errors.Is(err, lockmw.ErrQueueFull):
					full.Add(1)
				case err == nil:
					answered.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		if n := l.Stats().Names["report"].Waiting; n != 2 {
			t.Errorf("Stats know %d who wait, want 2", n)
		}
		all.Wait()
		if full.Load() != 7 || answered.Load() != 3 {
			t.Errorf("%d had no room and %d an answer, want 7 and 3", full.Load(), answered.Load())
		}
		if names := l.Stats().Names; names["report"].Waiting != 0 {
			t.Errorf("Stats know %v afterwards", names)
		}
	})
}

// The function's context ends after MaxHold, and has the values of its call and not its deadline.
func TestTheContextOfAFunction(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l := testenv.Open(t, s.Client(t))
		type named struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), named{}, "value"), time.Minute)
		defer cancel()
		f := flight
		f.Policy.MaxHold = 2 * time.Second
		began := time.Now()
		_, _, err := lockmw.Do(ctx, l, key, f, func(ctx context.Context) (int, error) {
			lease, ok := lockmw.FromContext(ctx)
			if _, bounded := ctx.Deadline(); bounded || ctx.Value(named{}) != "value" || !ok || lease.Fence() == 0 {
				t.Errorf("deadline %v, value %v, lease %v", bounded, ctx.Value(named{}), lease)
			}
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		if took := time.Since(began); !errors.Is(err, lockmw.ErrMaxHold) || took != 2*time.Second {
			t.Errorf("Do = %v after %v, want ErrMaxHold after 2 s", err, took)
		}
	})
}

// Close does not wait for long for an answer that Redis does not take, and says so if it leaves a lock behind.
func TestCloseWhileAnAnswerIsTried(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l := testenv.Open(t, client)
		f := retained(time.Minute)
		f.Policy.TTL = 30 * time.Second
		if answer, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (int, error) {
			proxy.BlackHole(faultproxy.Both)
			return 1, nil
		}); answer != 1 || err != nil {
			t.Errorf("Do = %d, %v", answer, err)
		}
		time.AfterFunc(2*time.Second, func() { proxy.Heal() })
		began := time.Now()
		err := l.Close(context.Background())
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("Close took %v", took)
		}
		left := keysOf(t, s.Client(t), "lock:{"+key+"}")
		if held := len(left) > 0 && !strings.HasSuffix(left[0], ":answer"); held && !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("Close = %v, and Redis has %q", err, left)
		}
	})
}

// A lock that a nested call wants to stay taken (MinHold) does so, and the answer is kept.
func TestAnAnswerOfALockThatStays(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		f := retained(time.Minute)
		answer, _, err := lockmw.Do(context.Background(), l, key, f, func(ctx context.Context) (int, error) {
			_, inner, err := l.Acquire(ctx, key, lockmw.Policy{Reentrant: true, MinHold: 5 * time.Second})
			if err != nil {
				return 0, err
			}
			time.Sleep(time.Millisecond) // until the server's clock has passed the fence, as it nearly always has
			return 1, inner.Release(ctx)
		})
		if answer != 1 || err != nil {
			t.Fatalf("Do = %d, %v", answer, err)
		}
		if _, _, err := other.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("Acquire = %v, want that the key cools down", err)
		}
		if answer, shared, err := lockmw.Do(context.Background(), other, key, f, func(context.Context) (int, error) { return 2, nil }); answer != 1 || !shared || err != nil {
			t.Errorf("Do = %d, %v, %v, want the answer that is kept", answer, shared, err)
		}
	})
}

// A call that takes over from one that gave up keeps the place of when it came.
func TestACallThatTakesOverKeepsItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		key := redistest.Prefix(t)
		l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		holder := mustAcquire(t, other, key, lockmw.Policy{})
		var mu sync.Mutex
		var order []string
		did := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		var all sync.WaitGroup
		call := func(wait time.Duration, what string) {
			all.Go(func() {
				f := flight
				f.Policy.Wait = wait
				_, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (int, error) {
					did(what)
					return 1, nil
				})
				if err != nil && wait > time.Second {
					t.Error(err)
				}
			})
			time.Sleep(50 * time.Millisecond)
		}
		call(400*time.Millisecond, "who leads first")
		call(time.Minute, "who takes over")
		for i := range 3 { // from other processes
			all.Go(func() {
				lease := mustAcquire(t, other, key, lockmw.Policy{Wait: time.Minute})
				did(fmt.Sprint("plain ", i))
				mustRelease(t, lease)
			})
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		mustRelease(t, holder)
		all.Wait()
		if len(order) != 4 || order[0] != "who takes over" {
			t.Errorf("%q", order)
		}
	})
}
