package lockmw_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A spent context panics in Value once it is, as that of a request may which its framework
// has taken back.
type spent struct {
	context.Context
	is *atomic.Bool
}

func (s spent) Value(key any) any {
	if s.is.Load() {
		panic("spent")
	}
	return s.Context.Value(key)
}

// A caller whose context panics when the lock is passed on to it takes nobody along: the next
// one has the lock, and Close ends.
func TestAContextThatPanicsInTheMiddleOfATenure(t *testing.T) {
	s := redistest.Shared(t)
	for name, bad := range map[string]func(is *atomic.Bool) context.Context{
		"Value panics": func(is *atomic.Bool) context.Context { return spent{context.Background(), is} },
		"Err panics":   func(is *atomic.Bool) context.Context { return lockmw.Mute{Context: context.Background(), Spent: is} },
	} {
		t.Run(name, func(t *testing.T) {
			key := redistest.Prefix(t)
			l, err := lockmw.New(s.Client(t))
			if err != nil {
				t.Fatal(err)
			}
			mustRelease(t, mustAcquire(t, l, key, patient))
			channel, c := "lock:grants:"+l.Instance(), s.Client(t)
			await.Until(t, "it listens", func() bool {
				return c.PubSubNumSub(context.Background(), channel).Val()[channel] == 1
			})
			first := mustAcquire(t, l, key, patient)
			var is atomic.Bool
			panicked := make(chan any, 1)
			go func() {
				defer func() { panicked <- recover() }()
				_, _, err := l.Acquire(bad(&is), key, patient)
				t.Errorf("Acquire returned %v", err)
			}()
			await.Until(t, "it waits", func() bool { return lockmw.Waiting(l, key) == 1 })
			waiting := lineUp(t, l, key, patient, 1)
			is.Store(true)
			mustRelease(t, first)
			if v := await.Receive(t, "the caller whose context has panicked returns", panicked); v != "spent" {
				t.Errorf("panic: %v", v)
			}
			mustRelease(t, await.Receive(t, "the next one has the lock", waiting))
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
			noKeys(t, c, key, 3*time.Second)
		})
	}
}

// What a call for several keys has got is given back where the caller's context panics as the call gives up, or the note function
// does at the second key. The observers hear of both ends.
func TestAPanicInTheMiddleOfManyKeys(t *testing.T) {
	for name, tt := range map[string]struct {
		wait  time.Duration
		notes int32 // the call for the program's note that panics
	}{
		"its context, as it gives up":       {2 * time.Second, 0},
		"the note of the second, by itself": {time.Minute, 4}, // one each for the command for both, and that of the first
	} {
		t.Run(name, func(t *testing.T) {
			c := redistest.Embedded(t).Client(t)
			var seen events
			var is atomic.Bool
			var notes atomic.Int32
			l := testenv.Open(t, c, seen.option(), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
				is.Store(is.Load() || e.Kind == lockmw.EventAcquired && tt.notes == 0)
			}), lockmw.WithNote(func(context.Context) string {
				if notes.Add(1) == tt.notes {
					panic("spent")
				}
				return ""
			}))
			mustAcquire(t, testenv.Open(t, c), "b", lockmw.Policy{})
			panicked := make(chan any, 1)
			go func() {
				defer func() { panicked <- recover() }()
				_, _, err := l.AcquireAll(lockmw.Mute{Context: context.Background(), Spent: &is}, []string{"a", "b"}, lockmw.Policy{TTL: time.Minute, Wait: tt.wait})
				t.Errorf("AcquireAll returned %v", err)
			}()
			if v := await.Receive(t, "the panic", panicked); v != "spent" {
				t.Errorf("panic: %v", v)
			}
			noKeys(t, c, "a}", 2*time.Second)
			acquired, released := seen.of(lockmw.EventAcquired), seen.of(lockmw.EventReleased)
			if len(acquired) != 1 || acquired[0].Key != "a" || len(released) != 1 || released[0].Key != "a" {
				t.Errorf("told of the begin of %+v and of the end of %+v, want both of a", acquired, released)
			}
			closesSoon(t, l)
		})
	}
}

// A broken context breaks the contract of context.Context: once it is, its Done is closed and
// its Err is nil. Package context panics at that.
type broken struct {
	context.Context
	is *atomic.Bool
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (b broken) Done() <-chan struct{} {
	if b.is.Load() {
		return closed
	}
	return nil
}

// A caller whose context panics when its lock is granted has no lease, so nothing stays in Redis
// for it: neither the lock, for its TTL, nor a goroutine. Close has nothing to wait for, and the
// panic reaches whoever called.
func TestAContextThatPanicsWhileItsCommandIsUnderWay(t *testing.T) {
	s := redistest.Shared(t)
	once := lockmw.Policy{TTL: time.Minute}
	waits := lockmw.Policy{TTL: time.Minute, Wait: 30 * time.Second}
	acquire := func(l *lockmw.Locker, ctx context.Context, key string, p lockmw.Policy) error {
		_, _, err := l.Acquire(ctx, key, p)
		return err
	}
	all := func(l *lockmw.Locker, ctx context.Context, key string, p lockmw.Policy) error {
		_, _, err := l.AcquireAll(ctx, []string{key, key + "2", key + "3"}, p)
		return err
	}
	for name, tt := range map[string]struct {
		call   func(l *lockmw.Locker, ctx context.Context, key string, p lockmw.Policy) error
		policy lockmw.Policy
		notes  int32 // the call for the program's note with which the context becomes bad: right before a command
	}{
		"without a wait":               {acquire, once, 1},
		"with a wait":                  {acquire, waits, 1},
		"a reader":                     {acquire, lockmw.Policy{TTL: time.Minute, Mode: lockmw.Shared}, 1},
		"several keys":                 {all, once, 3},
		"several keys, with a wait":    {all, waits, 3},
		"several keys, one by one":     {all, once, 4},
		"several keys, waits for each": {all, waits, 4},
	} {
		for how, bad := range map[string]func(is *atomic.Bool) (ctx context.Context, want string){
			"Value panics": func(is *atomic.Bool) (context.Context, string) { return spent{context.Background(), is}, "spent" },
			"Done but without Err": func(is *atomic.Bool) (context.Context, string) {
				return broken{context.Background(), is}, "context: internal error: missing cancel error"
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				key, c := redistest.Prefix(t), s.Client(t)
				var is atomic.Bool
				var notes atomic.Int32
				l, err := lockmw.New(s.Client(t), lockmw.WithNote(func(context.Context) string {
					is.Store(notes.Add(1) == tt.notes)
					return ""
				}))
				if err != nil {
					t.Fatal(err)
				}
				taken := mustAcquire(t, testenv.Open(t, c), key+"3", once)
				if tt.notes <= 3 {
					mustRelease(t, taken)
				}
				ctx, want := bad(&is)
				panicked := make(chan any, 1)
				go func() {
					defer func() { panicked <- recover() }()
					t.Errorf("the call returned %v", tt.call(l, ctx, key, tt.policy))
				}()
				select {
				case v := <-panicked:
					if text, ok := v.(string); !ok || text != want {
						t.Errorf("panic: %v, want %q", v, want)
					}
				case <-time.After(20 * time.Second):
					t.Fatal("the caller whose context has panicked does not return")
				}
				if tt.notes > 3 { // the keys could not be had together
					mustRelease(t, taken)
				}
				noKeys(t, c, key, 20*time.Second)
				if n := l.Stats(); len(n.Names) != 0 {
					t.Errorf("Stats: %+v", n)
				}
				begun := time.Now()
				if err := l.Close(context.Background()); err != nil && !unanswered(err, begun) || time.Since(begun) > 10*time.Second {
					t.Errorf("Close: %v after %v", err, time.Since(begun))
				}
				noKeys(t, c, key, 0)
				await.Within(t, 20*time.Second, "its goroutines are gone", func() bool {
					all := make([]byte, 1<<20)
					return !strings.Contains(string(all[:runtime.Stack(all, true)]), "lockmw.(*claim)")
				})
			})
		}
	}
}

// A caller leaves before Redis has answered, or before there is a connection, and its context panics when it is asked why. What the
// command left is removed, and Close, which waits for the command, ends.
func TestAContextThatPanicsAsItsCallerLeaves(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, call := range map[string]func(ctx context.Context, l *lockmw.Locker, key string) (*lockmw.Lease, error){
		"one key": func(ctx context.Context, l *lockmw.Locker, key string) (*lockmw.Lease, error) {
			_, lease, err := l.Acquire(ctx, key, lockmw.Policy{TTL: time.Minute})
			return lease, err
		},
		"several keys": func(ctx context.Context, l *lockmw.Locker, key string) (*lockmw.Lease, error) {
			_, lease, err := l.AcquireAll(ctx, []string{key, key + "2"}, lockmw.Policy{TTL: time.Minute})
			return lease, err
		},
	} {
		for when, connected := range map[string]bool{"its command is under way": true, "there is no connection yet": false} {
			t.Run(name+", "+when, func(t *testing.T) {
				key, c := redistest.Prefix(t), s.Client(t)
				client, proxy := proxied(t, s)
				l, err := lockmw.New(client)
				if err != nil {
					t.Fatal(err)
				}
				if connected { // and the server knows the script
					lease, err := call(context.Background(), l, key)
					if err != nil {
						t.Fatal(err)
					}
					mustRelease(t, lease)
				}
				proxy.Stall(faultproxy.ToClient)
				var is atomic.Bool
				ctx, cancel := context.WithCancel(context.Background())
				panicked := make(chan any, 1)
				go func() {
					defer func() { panicked <- recover() }()
					_, err := call(spent{ctx, &is}, l, key)
					t.Errorf("the call returned %v", err)
				}()
				await.Within(t, 20*time.Second, "it waits for Redis", func() bool {
					return connected && len(keysOf(t, c, key)) > 0 || !connected && proxy.Connections() > 0
				})
				is.Store(true)
				cancel()
				if v := await.Receive(t, "the panic", panicked); v != "spent" {
					t.Errorf("panic: %v", v)
				}
				proxy.Heal()
				closed := make(chan error, 1)
				go func() { closed <- l.Close(context.Background()) }()
				if err := await.Receive(t, "Close", closed); err != nil {
					t.Error(err)
				}
				noKeys(t, c, key, 10*time.Second)
			})
		}
	}
}

// A caller's context that was taken back panics when a lease's context, which comes from it, ends.
func TestAContextThatPanicsAtTheRelease(t *testing.T) {
	for name, keys := range map[string][]string{"one key": {"a"}, "several keys": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			m := redistest.Embedded(t)
			l := testenv.Open(t, m.Client(t))
			var is atomic.Bool
			work, lease, err := l.AcquireAll(spent{t.Context(), &is}, keys, lockmw.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			is.Store(true)
			if err := lease.Release(context.Background()); err != nil || len(m.Keys()) > 0 {
				t.Errorf("Release = %v, and there are %q, want nothing", err, m.Keys())
			}
			select {
			case <-work.Done():
			default:
				t.Error("the lease's context goes on")
			}
		})
	}
}
