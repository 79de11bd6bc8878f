package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// On real servers and sockets the bounds leave room for a machine that is busy;
// outage_test.go has the exact ones.
const (
	openWithin    = 5 * time.Second        // the first, 1 s; a policy's Wait is longer
	laterWithin   = 800 * time.Millisecond // the others, 50 ms; less than the first
	refusedWithin = 2 * time.Second        // 250 ms
	backWithin    = 5 * time.Second
)

// Redis answers nothing for a moment, and a crowd has less patience than that.
func TestAHiccupIsNoOutage(t *testing.T) {
	slow.Test(t)
	const pause = 120 * time.Millisecond
	s := redistest.Real(t)
	client, far := proxied(t, s)
	for _, hiccup := range []struct {
		name     string
		patience time.Duration
		client   *redis.Client
		begin    func(t *testing.T) (end func())
	}{
		{"far away", 20 * time.Millisecond, client, func(*testing.T) func() {
			far.Delay(faultproxy.ToServer, 40*time.Millisecond)
			return func() { far.Delay(faultproxy.ToServer, 0) }
		}},
		{"paused", 50 * time.Millisecond, s.Client(t), func(t *testing.T) func() {
			t.Helper()
			if err := s.Client(t).Do(context.Background(), "CLIENT", "PAUSE", pause.Milliseconds()).Err(); err != nil {
				t.Fatal(err)
			}
			return func() {}
		}},
		{"stopped", 50 * time.Millisecond, s.Client(t), func(t *testing.T) func() {
			t.Helper()
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			on := time.AfterFunc(pause, func() { _ = s.Cont() })
			return func() { // also where the machine was too busy to be in time
				on.Stop()
				if err := s.Cont(); err != nil {
					t.Error(err)
				}
			}
		}},
	} {
		t.Run(hiccup.name, func(t *testing.T) {
			l := testenv.Open(t, hiccup.client, lockmw.WithMaxWaiters(2000, 2000))
			for _, callers := range []int{1, 20, 1000} {
				for _, p := range []lockmw.Policy{
					{Wait: hiccup.patience},
					{Wait: hiccup.patience, FailOpen: true},
					{Retries: lockmw.Forever}, // ctx ends the wait
					{Retries: lockmw.Forever, FailOpen: true},
				} {
					t.Run(fmt.Sprintf("%d callers, Wait %v, FailOpen %t", callers, p.Wait, p.FailOpen), func(t *testing.T) {
						key := redistest.Prefix(t)
						mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{Wait: 10 * time.Second})) // there are connections, and the scripts are known
						defer hiccup.begin(t)()
						impatient(t, l, key, callers, hiccup.patience, p)
					})
				}
			}
		})
	}
}

// impatient has callers ask for one lock, each for as long as it has patience. All
// must be locked or told that others are.
func impatient(t *testing.T, l *lockmw.Locker, key string, callers int, patience time.Duration, p lockmw.Policy) {
	t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	var locked, busy atomic.Int64
	for range callers {
		wg.Go(func() {
			ctx := context.Background()
			if p.Wait == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, patience)
				defer cancel()
			}
			_, lease, err := l.Acquire(ctx, key, p)
			switch {
			case err != nil && time.Since(began) >= outage.DoubtAfter, err == nil && lease.Fence() == 0 && time.Since(began) >= outage.SilentAfter:
				// The machine is so busy that it was a silence after all.
				t.Logf("after %v: %v", time.Since(began), err)
			case err == nil && lease.Fence() == 0:
				t.Error("ran without the lock")
			case err == nil:
				locked.Add(1)
			case errors.Is(err, lockmw.ErrNotAcquired) && !errors.Is(err, lockmw.ErrUnavailable):
				busy.Add(1)
			default:
				t.Errorf("after %v: %v, want ErrNotAcquired", time.Since(began), err)
			}
			if lease != nil {
				time.Sleep(patience)
				_ = lease.Release(context.Background())
			}
		})
	}
	wg.Wait()
	t.Logf("%d locked, %d not", locked.Load(), busy.Load())
}

// A Redis that answers is there, whatever it says: nobody runs without the lock.
func TestARefusalDoesNotFailOpen(t *testing.T) {
	slow.Test(t)
	config := func(t *testing.T, c *redis.Client, name, value string) {
		t.Helper()
		if err := c.ConfigSet(context.Background(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for name, refuse := range map[string]func(t *testing.T, s *redistest.Server) (ended func()){
		"READONLY": func(t *testing.T, s *redistest.Server) func() {
			t.Helper()
			if err := s.Client(t).ReplicaOf(context.Background(), "127.0.0.1", "1").Err(); err != nil {
				t.Fatal(err)
			}
			return func() {}
		},
		"MASTERDOWN": func(t *testing.T, s *redistest.Server) func() { // a replica that has lost its master, and may not answer from what it has
			t.Helper()
			config(t, s.Client(t), "replica-serve-stale-data", "no")
			if err := s.Client(t).ReplicaOf(context.Background(), "127.0.0.1", "1").Err(); err != nil {
				t.Fatal(err)
			}
			return func() {}
		},
		"NOREPLICAS": func(t *testing.T, s *redistest.Server) func() {
			t.Helper()
			config(t, s.Client(t), "min-replicas-to-write", "1")
			return func() {}
		},
		"MISCONF": func(t *testing.T, s *redistest.Server) func() {
			t.Helper()
			if err := s.FailToSave(t.Context()); err != nil {
				t.Fatal(err)
			}
			return func() {}
		},
		"OOM": func(t *testing.T, s *redistest.Server) func() {
			t.Helper()
			config(t, s.Client(t), "maxmemory", "1")
			return func() {}
		},
		"BUSY": func(t *testing.T, s *redistest.Server) func() {
			t.Helper()
			c := s.Client(t)
			config(t, c, "busy-reply-threshold", "1")
			looping := make(chan struct{})
			go func() {
				defer close(looping)
				c.Eval(context.Background(), "while true do end", nil)
			}()
			other := s.Client(t)
			await.Within(t, 10*time.Second, "it is busy", func() bool {
				return redis.HasErrorPrefix(other.Get(context.Background(), "k").Err(), "BUSY")
			})
			return func() {
				other.ScriptKill(context.Background())
				<-looping
			}
		},
	} {
		for _, wait := range []time.Duration{0, 400 * time.Millisecond, 2 * time.Second} {
			t.Run(fmt.Sprint(name, wait), func(t *testing.T) {
				t.Parallel()
				s := redistest.Real(t)
				l := testenv.Open(t, s.Client(t))
				pinged := s.Client(t, func(o *redis.Options) { o.MaxRetries = -1 }) // or a ping that is refused is sent again, and looks slow
				policy := lockmw.Policy{TTL: 200 * time.Millisecond, Wait: wait, FailOpen: true}
				mustRelease(t, mustAcquire(t, l, "k", policy))
				ended := refuse(t, s)
				said := false
				for range 3 {
					after, lease, err := tookOfOneThatAnswers(t, l, pinged, policy)
					if err == nil {
						t.Errorf("ran after %v (fence %d)", after, lease.Fence())
						_ = lease.Release(context.Background())
					} else if !errors.Is(err, lockmw.ErrUnavailable) {
						t.Errorf("after %v: %v", after, err)
					}
					said = said || err != nil && strings.Contains(err.Error(), name)
					t.Logf("%v: %v", after, err)
				}
				if !said {
					t.Errorf("no error says %q", name)
				}
				if wait == 0 { // Redis has done nothing that would have to be undone
					if err := l.Close(over()); err != nil {
						t.Errorf("Close = %v, want nothing to clean up", err)
					}
				}
				ended()
			})
		}
	}
}

// tookOfOneThatAnswers is took, again for 20 s while a server that others kept from the processor has been as good as silent.
func tookOfOneThatAnswers(t *testing.T, l *lockmw.Locker, server *redis.Client, p lockmw.Policy) (after time.Duration, lease *lockmw.Lease, err error) {
	t.Helper()
	stood := stalls.During(t)
	for end := time.Now().Add(20 * time.Second); ; {
		began := time.Now()
		stop := redistest.Pulse(stood, 20*time.Millisecond, redistest.Silences, server)
		after, lease, err = took(l, "k", p)
		stop() // what a ping still waits for counts, too
		silent := stood.Longest(began, time.Now()) >= outage.DoubtAfter
		if opened := err == nil && lease.Fence() == 0; !opened || !silent || time.Now().After(end) {
			return after, lease, err
		}
		t.Logf("ran after %v, since the server was silent", after)
		_ = lease.Release(context.Background())
	}
}

// A grant that comes when its TTL is over is an answer, too, where the Wait is long enough
// for one over a new connection.
func TestALateGrantDoesNotFailOpen(t *testing.T) {
	for _, wait := range []time.Duration{0, 600 * time.Millisecond, 2 * time.Second} {
		t.Run(wait.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *redistest.Mini) {
				client, proxy := proxied(t, m)
				l := testenv.Open(t, client)
				policy := lockmw.Policy{TTL: 200 * time.Millisecond, Wait: wait, FailOpen: true}
				mustRelease(t, mustAcquire(t, l, "k", policy))
				proxy.Delay(faultproxy.ToClient, 230*time.Millisecond)
				for range 3 {
					after, lease, err := took(l, "k", policy)
					if err == nil {
						t.Errorf("ran after %v (fence %d)", after, lease.Fence())
						_ = lease.Release(context.Background())
					} else if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "too late") {
						t.Errorf("after %v: %v", after, err)
					}
				}
				proxy.Delay(faultproxy.ToClient, 0)
			})
		})
	}
}

// In a Cluster a slot that is being moved refuses commands on several of its keys.
func TestAMovingSlotDoesNotFailOpen(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := redistest.Cluster(t)
	l := testenv.Open(t, c.Client(t))
	p := lockmw.Policy{FailOpen: true}
	held := mustAcquire(t, l, "k", lockmw.Policy{TTL: time.Minute})
	from, err := c.Owner(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	err = c.Move(t.Context(), "k", c.Other(from), func() {
		for range 5 {
			var lease *lockmw.Lease
			refused := func(err error) bool { return err != nil || lease.Fence() != 0 }
			err := askUntil(refused, func() (err error) {
				if lease != nil {
					_ = lease.Release(context.Background())
				}
				_, lease, err = l.Acquire(context.Background(), "k", p)
				return err
			})
			if err == nil {
				t.Errorf("ran beside the holder (fence %d)", lease.Fence())
			}
			t.Log(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = held.Release(context.Background())
}

// The keys of the other masters go on being locked.
func TestAClusterNodeThatIsAwayRefusesItsOwnKeysOnly(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := redistest.Cluster(t)
	l := testenv.Open(t, c.Client(t))
	owner, theirs, others := keysByNode(t, c, 20)
	for _, key := range slices.Concat(theirs, others) {
		mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{}))
	}
	owner.Kill()
	await.Within(t, 20*time.Second, "it is known", func() bool {
		after, _, err := took(l, theirs[0], lockmw.Policy{Wait: 5 * time.Second})
		return errors.Is(err, lockmw.ErrUnavailable) && after < refusedWithin
	})
	locked := 0
	for range 10 {
		for _, key := range theirs {
			began := time.Now()
			if after, _, err := took(l, key, lockmw.Policy{Wait: 5 * time.Second}); !errors.Is(err, lockmw.ErrUnavailable) || after > refusedWithin+machine.Between(began, time.Now()) {
				t.Errorf("%s after %v: %v", key, after, err)
			}
		}
		for _, key := range others {
			began := time.Now()
			after, lease, err := took(l, key, lockmw.Policy{Wait: 5 * time.Second, FailOpen: true})
			switch {
			case err == nil && lease.Fence() != 0 && after <= refusedWithin:
				locked++
			case !stoodStill(began): // else the other nodes may have been silent, too
				t.Errorf("%s after %v: %v, want it locked", key, after, err)
			}
			if err == nil {
				mustRelease(t, lease)
			}
		}
	}
	if want := 10 * len(others); locked < want/2 {
		t.Errorf("%d of %d were locked", locked, want)
	}
}

// realOutages are the ways in which a real Redis cannot be reached.
var realOutages = map[string]struct {
	begin func(t *testing.T, s *redistest.Server)
	end   func(t *testing.T, s *redistest.Server)
}{
	"killed": {
		func(_ *testing.T, s *redistest.Server) { s.Kill() },
		func(t *testing.T, s *redistest.Server) {
			t.Helper()
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
		},
	},
	"stopped": {
		func(t *testing.T, s *redistest.Server) {
			t.Helper()
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, s *redistest.Server) {
			t.Helper()
			if err := s.Cont(); err != nil {
				t.Fatal(err)
			}
		},
	},
}

func TestFailOpenWhileARealRedisIsAway(t *testing.T) {
	slow.Test(t)
	for kind, o := range realOutages {
		for name, p := range map[string]lockmw.Policy{
			"Wait":    {FailOpen: true, Wait: time.Minute},
			"Forever": {FailOpen: true, Retries: lockmw.Forever},
		} {
			for _, callers := range []int{1, 1000} {
				t.Run(fmt.Sprintf("%s, %s, %d callers", kind, name, callers), func(t *testing.T) {
					if callers == 1 {
						t.Parallel() // it mostly waits; a thousand keep the machine busy
					}
					s := redistest.Real(t)
					l := testenv.Open(t, s.Client(t))
					mustRelease(t, mustAcquire(t, l, "k", p))
					o.begin(t, s)
					slowest := crowd(t, l, callers, p)
					if slowest > openWithin {
						t.Errorf("the first ran without the lock after %v", slowest)
					}
					t.Logf("the first: all of %d within %v", callers, slowest)
					await.Within(t, 5*time.Second, "it is known", func() bool { return crowd(t, l, 1, p) < laterWithin })
					began := time.Now()
					slowest = crowd(t, l, callers, p)
					if slowest > laterWithin+machine.Between(began, time.Now()) {
						t.Errorf("the others ran without the lock after %v", slowest)
					}
					t.Logf("the others: all of %d within %v", callers, slowest)
					o.end(t, s)
					back := time.Now()
					wantLocked(t, l, p, backWithin)
					t.Logf("locked %v after Redis is back", time.Since(back))
				})
			}
		}
	}
}

// fillers is a script that makes 20,000 keys, and slowToLoad has a server load each of them in a millisecond, and look after
// its clients all the time, from when it is asked to load until there is no delay.
const fillers = `for i = 1, 20000 do redis.call('SET', 'filler:' .. i, string.rep('x', 100)) end return 1`

func slowToLoad(t *testing.T, s *redistest.Server) {
	t.Helper()
	command(t, s, "CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
	command(t, s, "CONFIG", "SET", "key-load-delay", "1000")
}

// reload has a server load its own data again, and returns when it refuses everything for that by LOADING. loaded ends that,
// and returns when it serves.
func reload(t *testing.T, s *redistest.Server) (loaded func()) {
	t.Helper()
	command(t, s, "EVAL", fillers, 0)
	command(t, s, "CONFIG", "SET", "rdbcompression", "no") // otherwise it would seldom look after its clients
	slowToLoad(t, s)
	loader := s.Client(t, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = -1, -1 })
	ended := make(chan error, 1)
	go func() { ended <- loader.Do(context.Background(), "DEBUG", "RELOAD").Err() }()
	raw := s.Client(t)
	await.Until(t, "the server loads", func() bool {
		return redis.HasErrorPrefix(raw.Get(context.Background(), "filler:1").Err(), "LOADING")
	})
	return func() {
		t.Helper()
		command(t, s, "CONFIG", "SET", "key-load-delay", "0")
		if err := await.Receive(t, "the end of the load", ended); err != nil {
			t.Fatal(err)
		}
	}
}

// A Redis that loads its data, as behind a restart, counts as away: calls are refused at once and are told why, or
// run without the lock where their policy says so, and those that wait go on waiting. When it has loaded, everything works
// again, and what was held still is.
func TestARedisThatLoadsIsAway(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s := redistest.Real(t)
	l := testenv.Open(t, s.Client(t))
	held := mustAcquire(t, l, "held", lockmw.Policy{TTL: time.Minute})
	loaded := reload(t, s)
	open := lockmw.Policy{FailOpen: true, Wait: time.Minute}
	after, _, err := took(l, "k", lockmw.Policy{})
	refusal, ok := lockmw.RefusalOf(err)
	if !ok || refusal.Code != lockmw.CodeBackendUnavailable || refusal.Status != http.StatusServiceUnavailable || after > refusedWithin {
		t.Errorf("refused after %v by %v (%+v), want %s within %v", after, err, refusal, lockmw.CodeBackendUnavailable, refusedWithin)
	}
	wantUnavailable(t, l, lockmw.Policy{}, 0, refusedWithin, "LOADING")
	wantOpen(t, l, open, 0, openWithin)
	if err := l.Ping(context.Background()); !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "LOADING") {
		t.Errorf("Ping = %v, want that the server loads", err)
	}
	waiting := lineUp(t, l, "waits", lockmw.Policy{TTL: time.Minute, Retries: lockmw.Forever}, 1)
	loaded()
	back := time.Now()
	wantLocked(t, l, open, backWithin)
	t.Logf("locked %v after it has loaded", time.Since(back))
	if lease := await.Receive(t, "the turn of one who has waited", waiting); lease != nil {
		mustRelease(t, lease)
	}
	wantRenewed(t, l, held)
	mustRelease(t, held)
}

// crowd has n callers take a lock each, of a hundred keys, all of whom must run without
// it. It returns how long the slowest waited.
func crowd(t *testing.T, l *lockmw.Locker, n int, p lockmw.Policy) (slowest time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			after, lease, err := took(l, fmt.Sprint("key", i%100), p)
			if err != nil || lease.Fence() != 0 {
				t.Errorf("after %v: %v, want to run without the lock", after, err)
				return
			}
			mu.Lock()
			slowest = max(slowest, after)
			mu.Unlock()
			_ = lease.Release(context.Background())
		})
	}
	wg.Wait()
	return slowest
}

// A thousand requests a second while Redis is away for long.
func TestAFloodInALongOutageIsRefused(t *testing.T) {
	slow.Test(t)
	for kind, o := range realOutages {
		t.Run(kind, func(t *testing.T) {
			s := redistest.Real(t)
			l := testenv.Open(t, s.Client(t))
			p := lockmw.Policy{Wait: 2 * time.Second}
			mustRelease(t, mustAcquire(t, l, "k", p))
			goroutines := runtime.NumGoroutine()
			o.begin(t, s)
			began := time.Now()
			const lasts = 3 * time.Second
			var mu sync.Mutex
			var known, unknown time.Duration // the slowest, of those who came before a second had passed and after it
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			most, n := 0, 0
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			var wg sync.WaitGroup
			for now := began; now.Sub(began) < lasts; now = <-tick.C {
				for ; n < int(now.Sub(began)/time.Millisecond); n++ {
					key := fmt.Sprint("key", n%100)
					wg.Go(func() {
						came := time.Since(began)
						after, lease, err := took(l, key, p)
						if !errors.Is(err, lockmw.ErrUnavailable) {
							t.Errorf("after %v: %v", after, err)
							if err == nil {
								_ = lease.Release(context.Background())
							}
						}
						mu.Lock()
						defer mu.Unlock()
						if came > 1250*time.Millisecond {
							known = max(known, after)
						} else {
							unknown = max(unknown, came+after)
						}
					})
				}
				if now.Sub(began) > 2*time.Second {
					most = max(most, runtime.NumGoroutine())
				}
			}
			wg.Wait()
			runtime.GC()
			runtime.ReadMemStats(&after)
			grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
			t.Logf("%d requests; all of the first second told %v after the outage began; later ones within %v; at most %d goroutines (%d before), heap %+d KiB",
				n, unknown, known, most, goroutines, grown/1024)
			if known > refusedWithin {
				t.Errorf("refused after %v", known)
			}
			if unknown > 1250*time.Millisecond+refusedWithin {
				t.Errorf("those who waited were told %v after the outage began", unknown)
			}
			// Where the machine stands still, a thousand a second go on coming.
			if most > goroutines+500+int(machine.Between(began, time.Now()).Milliseconds()) {
				t.Errorf("%d goroutines, %d before", most, goroutines)
			}
			if grown > 8<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
			o.end(t, s)
			back := time.Now()
			wantLocked(t, l, p, backWithin)
			t.Logf("locked %v after Redis is back", time.Since(back))
		})
	}
}

// Where the way to Redis swallows everything, new connections too.
func TestABlackHoleIsAnOutage(t *testing.T) {
	slow.Test(t)
	client, proxy := proxied(t, redistest.Shared(t))
	l := testenv.Open(t, client, lockmw.WithNamespace(redistest.Prefix(t)))
	open := lockmw.Policy{FailOpen: true, Wait: time.Minute}
	mustRelease(t, mustAcquire(t, l, "k", open))
	proxy.BlackHole(faultproxy.Both)
	wantOpen(t, l, open, 250*time.Millisecond, openWithin)
	await.Within(t, 5*time.Second, "it is known", func() bool { return crowd(t, l, 1, open) < laterWithin })
	wantUnavailable(t, l, lockmw.Policy{Wait: time.Minute}, 0, refusedWithin, "cannot be reached since")
	proxy.Heal()
	wantLocked(t, l, open, backWithin)
}

// A connection that ends after it was accepted is none of the ways in which Redis
// is away: something between the caller and Redis is set up wrongly.
func TestAConnectionThatIsClosedDoesNotFailOpen(t *testing.T) {
	t.Parallel()
	client, proxy := proxied(t, redistest.Shared(t))
	l := testenv.Open(t, client)
	proxy.Refuse(true)
	wantNotOpen(t, l)
}

// wantNotOpen has a policy that fails open refused.
func wantNotOpen(t *testing.T, l *lockmw.Locker) {
	t.Helper()
	for _, p := range []lockmw.Policy{{FailOpen: true}, {FailOpen: true, Wait: 500 * time.Millisecond}} {
		if after, lease, err := took(l, "k", p); !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("after %v: %v, %v", after, lease, err)
		}
	}
}

// A user's dialer that fails is a mistake of the program, or of its set-up.
func TestADialerThatFailsDoesNotFailOpen(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	l := testenv.Open(t, s.Client(t, func(o *redis.Options) {
		o.Dialer = func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no way is configured")
		}
	}))
	wantNotOpen(t, l)
}
