package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

// An outcome of a release that was posted.
type told struct {
	did    store.Released
	answer store.Answer
	err    error
}

// post posts a release, and returns what receives what came of it.
func (p *probe) post(g store.Give, soon bool) <-chan told {
	p.Helper()
	c := make(chan told, 2)
	p.ReleaseAsync(g, soon, func(did store.Released, a store.Answer, err error) <-chan struct{} {
		c <- told{did, a, err}
		return nil
	})
	return c
}

// openInMemory returns a probe of an embedded server, in a synctest bubble, and the proxy on its way there.
func openInMemory(t *testing.T) (*probe, *faultproxy.Proxy) {
	t.Helper()
	proxy := faultproxy.InMemory(redistest.InMemory(t).DialInMemory)
	t.Cleanup(func() { _ = proxy.Close() })
	return open(t, redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.Dialer = proxy.Dial }), "ns"), proxy
}

// A release that is posted is told of what a release that is awaited returns.
func TestWhatComesOfAReleaseThatIsPosted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		for name, c := range map[string]struct {
			before func(p *probe, r store.Ref) store.Give
			want   store.Released
		}{
			"free":     {func(_ *probe, r store.Ref) store.Give { return store.Give{Ref: r} }, store.Freed},
			"it stays": {func(_ *probe, r store.Ref) store.Give { return store.Give{Ref: r, Stay: 50 * time.Millisecond} }, store.Freed},
			"not held": {func(p *probe, r store.Ref) store.Give {
				do(t, s.Client(t), "del", p.keys("k")[0])
				return store.Give{Ref: r}
			}, store.NotHeld},
			"the script is not known": {func(_ *probe, r store.Ref) store.Give {
				do(t, s.Client(t), "script", "flush")
				return store.Give{Ref: r}
			}, store.Freed},
			"it is offered": {func(p *probe, r store.Ref) store.Give {
				return store.Give{Ref: r, Next: store.Waiter{Ref: p.ref(time.Second)}}
			}, store.HandedOver},
			"another waits": {func(p *probe, r store.Ref) store.Give {
				p.refused(p.ref(time.Second), store.Wait)
				return store.Give{Ref: r}
			}, store.HandedOver},
		} {
			for _, soon := range []bool{false, true} {
				p := open(t, s.Client(t), redistest.Prefix(t))
				p.release(p.take(), false, store.Freed) // the server suits, and its clock is known
				r := p.ref(time.Minute)
				noteGrant(&r, p.get(r, store.Try))
				got := await.Receive(t, "what came of it", p.post(c.before(p, r), soon))
				if got.did != c.want || got.err != nil {
					t.Errorf("%s, soon %v: told %v, %v, want %v", name, soon, got.did, got.err, c.want)
				}
				if offered := name == "it is offered"; got.answer.Granted != offered {
					t.Errorf("the waiter was granted the lock: %v, want %v", got.answer.Granted, offered)
				}
				p.idle()
				if n := p.posts.n.Load(); n != 0 {
					t.Errorf("%d releases are not over", n)
				}
			}
		}
	})
}

// Whatever is asked about a lock after its release was posted is answered as if that had been awaited, also where several
// hold it and Redis does not know the script. Nobody's command is used again while somebody knows it.
func TestWhatIsAskedAfterAReleaseIsPosted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client := s.Client(t)
		p := open(t, client, redistest.Prefix(t))
		again := 10
		for i := range 60 {
			err := p.asksAfterPosts(client, i)
			for ; err != nil && store.AsError(err).Evidence == store.Silent && again > 0; again-- { // on a busy machine a connection may count as one that hangs
				keys := p.keys("k")
				if err := client.Del(t.Context(), keys[:]...).Err(); err != nil {
					t.Fatal(err)
				}
				err = p.asksAfterPosts(client, i)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// asksAfterPosts has some hold the lock, posts their releases and asks about it. It returns what was not as wanted, when all that was
// posted is over.
func (p *probe) asksAfterPosts(client *redis.Client, i int) (err error) {
	p.Helper()
	var refs []store.Ref
	for range 1 + i%3 {
		r := p.ref(time.Minute)
		if i%3 > 0 {
			r.Kind = store.Kind{Shared: true}
		}
		noteGrant(&r, p.get(r, store.Try))
		refs = append(refs, r)
	}
	if i%5 == 0 {
		do(p.T, client, "script", "flush")
	}
	var tolds []<-chan told
	for _, r := range refs {
		tolds = append(tolds, p.post(store.Give{Ref: r}, false))
	}
	taken := p.ref(time.Minute)
	if i%2 == 0 {
		var info store.Info
		if info, err = p.Inspect(p.Context(), "k"); err == nil && len(info.Holders) > 0 {
			err = fmt.Errorf("Inspect = %+v, want no holder", info)
		}
	} else if !p.ask(taken, store.Try).Granted {
		err = errors.New("Acquire was not granted")
	}
	for _, c := range tolds {
		switch got := await.Receive(p.T, "what came of it", c); {
		case got.err != nil:
			err = errors.Join(got.err, err) // it is why the lock is held still
		case got.did != store.Freed:
			err = errors.Join(err, fmt.Errorf("told %v, want %v", got.did, store.Freed))
		}
	}
	if i%2 > 0 && err == nil {
		p.release(taken, false, store.Freed)
	}
	return err
}

// Whatever is asked about a lock waits for a release that was announced, and has time left to be answered when that is not over
// by then. It waits for no less than that: nothing overtakes a release that may yet come.
func TestWhoWaitsForAReleaseHasTimeLeftToAsk(t *testing.T) {
	for has, waits := range map[time.Duration]time.Duration{
		opTimeout:              750 * time.Millisecond,
		750 * time.Millisecond: 500 * time.Millisecond,
		300 * time.Millisecond: 200 * time.Millisecond,
	} {
		for name, ask := range map[string]func(ctx context.Context, p *probe, until time.Time) (wanted bool, err error){
			"Acquire": func(ctx context.Context, p *probe, until time.Time) (bool, error) {
				a, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute), Join: store.Try, Until: until})
				return !a.Granted, err
			},
			"AcquireAll": func(ctx context.Context, p *probe, until time.Time) (bool, error) {
				refs := []store.Ref{p.ref(time.Minute), p.ref(time.Minute), p.ref(time.Minute)}
				refs[0].Key, refs[2].Key = "j", "l"
				fences, err := p.AcquireAll(ctx, refs, until, nil)
				return fences == nil, err
			},
			"ForceRelease": func(ctx context.Context, p *probe, _ time.Time) (bool, error) {
				return true, p.ForceRelease(ctx, "k", store.Intervention{})
			},
			"Inspect": func(ctx context.Context, p *probe, _ time.Time) (bool, error) {
				info, err := p.Inspect(ctx, "k")
				return len(info.Holders) == 1, err
			},
			"Resolve": func(ctx context.Context, p *probe, _ time.Time) (bool, error) {
				did, err := p.Resolve(ctx, "k", store.Record{Work: 1, Undone: true})
				return did == store.NoSuchWork, err
			},
		} {
			t.Run(fmt.Sprintf("%s in %v", name, has), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, proxy := openInMemory(t)
					p.take()
					for _, key := range []string{"j", "k", "l"} { // AcquireAll asks for all three, and waits once
						t.Cleanup(p.Announce(key))
					}
					const away = 20 * time.Millisecond // and a script that the server does not know goes there twice
					proxy.Delay(faultproxy.ToServer, away)
					began := time.Now()
					ctx, cancel := context.WithDeadline(t.Context(), began.Add(has))
					defer cancel()
					wanted, err := ask(ctx, p, began.Add(has))
					if took := time.Since(began); !wanted || err != nil || took < waits+away || took > waits+2*away {
						t.Errorf("as wanted: %v, %v after %v, want an answer %v to %v after %v", wanted, err, took, away, 2*away, waits)
					}
				})
			})
		}
	}
}

// Who asks for a free lock behind the only release of it that is under way does not wait for that first: the answer comes one way to the server and back
// after the question, and what came of the release is told by then.
func TestWhoAsksForAFreeLockGoesBehindItsRelease(t *testing.T) {
	const way = 20 * time.Millisecond
	for name, c := range map[string]struct {
		before func(t *testing.T, p *probe) // beside the release
		takes  time.Duration                // until the answer
	}{
		"one release": {func(*testing.T, *probe) {}, 2 * way},
		"another is announced": {func(t *testing.T, p *probe) {
			time.AfterFunc(3*way, p.Announce("k"))
		}, 5 * way},
		"the server has forgotten the script": {func(t *testing.T, p *probe) {
			do(t, p.client.(*redis.Client), "script", "flush") // over the way and back
		}, 10 * way}, // the release by the name of its script and, once more, by name and by text, and then acquire.lua by both
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, proxy := openInMemory(t)
				p.release(p.take(), false, store.Freed)
				r := p.ref(time.Minute)
				noteGrant(&r, p.get(r, store.Try))
				c.before(t, p)
				proxy.Delay(faultproxy.ToServer, way)
				proxy.Delay(faultproxy.ToClient, way)
				did := p.post(store.Give{Ref: r}, false)
				began := time.Now()
				if a := p.get(p.ref(time.Minute), store.Try); !a.Granted {
					t.Error("it was refused")
				}
				if took := time.Since(began); took != c.takes {
					t.Errorf("it took %v, want %v", took, c.takes)
				}
				select {
				case got := <-did:
					if got.did != store.Freed || got.err != nil {
						t.Errorf("of the release is told %v, %v, want %v", got.did, got.err, store.Freed)
					}
				default:
					t.Error("nothing was told of the release before the lock was granted anew")
				}
			})
		})
	}
}

// Who has the lock does not wait for long until a release that it went behind is over, as where that is sent again.
func TestWhoHasTheLockWaitsAMomentForTheWordOfItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, proxy := openInMemory(t)
		const way = time.Millisecond // otherwise the server's clock stands still, and its fence is kept beside the lock
		proxy.Delay(faultproxy.ToServer, way)
		p.release(p.take(), false, store.Freed)
		r := p.ref(time.Minute)
		noteGrant(&r, p.get(r, store.Try))
		over := make(chan struct{})
		p.ReleaseAsync(store.Give{Ref: r}, false, func(store.Released, store.Answer, error) <-chan struct{} { return over })
		began := time.Now()
		if a := p.get(p.ref(time.Minute), store.Try); !a.Granted {
			t.Error("it was refused")
		}
		if took, want := time.Since(began), way+toTell; took != want {
			t.Errorf("it took %v, want %v", took, want)
		}
		close(over)
	})
}

// What came of a release has been told when the lock is granted behind it, also where another caller reads the replies.
func TestAReleaseIsOverBeforeTheLockIsGrantedBehindIt(t *testing.T) {
	p := open(t, redistest.Shared(t).Client(t), redistest.Prefix(t))
	p.release(p.take(), false, store.Freed)
	var asking sync.WaitGroup
	for i := range 16 {
		asking.Go(func() {
			for n := range 200 {
				if err := p.asksBehind(fmt.Sprint("k", i, ".", n)); err != nil && store.AsError(err).Evidence != store.Silent { // on a busy machine a connection may hang
					t.Error(err)
					return
				}
			}
		})
	}
	asking.Wait()
}

// asksBehind takes the lock of a key, posts its release and asks for it again.
func (p *probe) asksBehind(key string) error {
	r := store.Ref{Key: key, Token: p.NewToken(""), TTL: time.Minute}
	a, err := p.Acquire(p.Context(), store.Request{Ref: r, Join: store.Try})
	if err != nil {
		return err
	}
	noteGrant(&r, a)
	var over atomic.Bool
	p.ReleaseAsync(store.Give{Ref: r}, false, func(store.Released, store.Answer, error) <-chan struct{} {
		time.Sleep(20 * time.Microsecond)
		over.Store(true)
		return nil
	})
	r = store.Ref{Key: key, Token: p.NewToken(""), TTL: time.Minute}
	switch a, err = p.Acquire(p.Context(), store.Request{Ref: r, Join: store.Try}); {
	case err != nil:
		return err
	case !a.Granted:
		return errors.New("the lock was refused behind its release")
	case !over.Load():
		return errors.New("the lock was granted before it was told what came of the release")
	}
	noteGrant(&r, a)
	_, _, err = p.Release(p.Context(), store.Give{Ref: r})
	return err
}

// A lock that stays taken does so also where an answer is kept with its release.
func TestALockThatStaysDoesSoWithAnAnswer(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		for _, posted := range []bool{false, true} {
			p := open(t, s.Client(t), redistest.Prefix(t))
			r := p.ref(time.Minute)
			noteGrant(&r, p.get(r, store.Try))
			g := store.Give{Ref: r, Stay: 30 * time.Second, Record: &store.Record{Fingerprint: "f", Data: "d", Retain: time.Minute}}
			if posted {
				<-p.post(g, false)
			} else if _, _, err := p.Release(t.Context(), g); err != nil {
				t.Fatal(err)
			}
			a, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute), Join: store.Try})
			if a.Granted || err != nil {
				t.Errorf("posted %v: granted %v, %v, want that it is refused", posted, a.Granted, err)
			}
		}
	})
}

// A release that is posted asks Redis for no more than give.lua does, where SET took the lock and nobody came since.
func TestAReleaseThatIsPostedDoesNoMoreThanGive(t *testing.T) {
	client := redistest.Real(t).Client(t)
	p := open(t, client, redistest.Prefix(t))
	p.release(p.take(), false, store.Freed)
	calls := func(release func(g store.Give)) string {
		r := p.ref(time.Minute)
		noteGrant(&r, p.get(r, store.Try))
		release(store.Give{Ref: r}) // the first time Redis may not know the script
		r = p.ref(time.Minute)
		noteGrant(&r, p.get(r, store.Try))
		do(t, client, "config", "resetstat")
		release(store.Give{Ref: r})
		var counts []string
		for line := range strings.Lines(client.Info(t.Context(), "commandstats").Val()) {
			name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
			if n, _, _ := strings.Cut(rest, ","); ok && !strings.HasPrefix(name, "config") && name != "info" {
				counts = append(counts, name+" "+n)
			}
		}
		slices.Sort(counts)
		return strings.Join(counts, ", ")
	}
	give := calls(func(g store.Give) {
		if did, _, err := p.Release(t.Context(), g); did != store.Freed || err != nil {
			t.Fatal(did, err)
		}
	})
	posted := calls(func(g store.Give) { <-p.post(g, true) })
	if want := "del 1, evalsha 1, get 1, time 1"; give != want || posted != want {
		t.Errorf("Redis was asked for %q by give.lua and for %q by what was posted, want %q", give, posted, want)
	}
}

// Who has gone behind a release is told as soon as their connection hangs, so that it can ask again, over another one.
func TestWhoAsksBehindAReleaseThatHangsIsToldSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, proxy := openInMemory(t)
		p.release(p.take(), false, store.Freed)
		r := p.ref(time.Minute)
		noteGrant(&r, p.get(r, store.Try))
		proxy.Busiest().BlackHole(faultproxy.Both)
		did := p.post(store.Give{Ref: r}, false)
		began := time.Now()
		_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute), Join: store.Try})
		if e := store.AsError(err); err == nil || !e.Stale || !e.Ambiguous || e.Evidence != store.Unclear {
			t.Errorf("Acquire = %+v, want an error that is Stale and Ambiguous, and nothing about the server", e)
		}
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if got := <-did; got.err == nil {
			t.Errorf("of the release is told %+v", got)
		}
	})
}

// A spent context panics when it is asked for one thing.
type spent struct {
	context.Context
	what string
}

func (s spent) Done() <-chan struct{} {
	if s.what == "Done" {
		panic("spent")
	}
	return s.Context.Done()
}

func (s spent) Value(key any) any {
	if s.what == "Value" {
		panic("spent")
	}
	return s.Context.Value(key)
}

// A caller whose context panics while it waits for a release leaves nothing behind: the release is told of, nobody waits for it
// any more, and its command is used again.
func TestAContextThatPanicsWhileAReleaseIsAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		what string
		time time.Duration // that the caller has; the release has a second
	}{
		"Done, with less time than the release":  {"Done", 100 * time.Millisecond},
		"Done, with more time than the release":  {"Done", 2 * time.Second},
		"Value, with less time than the release": {"Value", 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, proxy := openInMemory(t)
				p.release(p.take(), false, store.Freed) // the server suits, and its clock is known
				r := p.take()
				proxy.Stall(faultproxy.ToClient)
				told := p.post(store.Give{Ref: r}, false)
				var most uint64
				posted := p.posts.knowLast("k", &most)
				func() {
					defer func() {
						if v := recover(); v != "spent" {
							t.Errorf("panic: %v", v)
						}
					}()
					p.settle(spent{t.Context(), c.what}, "k", time.Now().Add(c.time))
				}()
				proxy.Heal()
				if got := await.Receive(t, "what came of it", told); got.did != store.Freed || got.err != nil {
					t.Errorf("told %v, %v, want %v", got.did, got.err, store.Freed)
				}
				p.idle()
				if n := p.posts.n.Load(); n != 0 {
					t.Errorf("%d releases are not over", n)
				}
				if !p.posts.forget(posted) {
					t.Error("somebody knows the command still, so it is not used again")
				}
			})
		})
	}
}

// A caller whose context panics when its command is carried out aside (exchange.go) leaves nothing under way.
func TestAContextThatPanicsWhileACommandIsCarriedOutAside(t *testing.T) {
	p := open(t, redistest.Embedded(t).Client(t), "ns")
	func() {
		defer func() {
			if v := recover(); v != "spent" {
				t.Errorf("panic: %v", v)
			}
		}()
		_, _ = p.aside(spent{t.Context(), "Done"}, time.Now().Add(patience), nil, func(context.Context) (any, error) { return nil, nil })
	}()
	idle := make(chan struct{})
	go func() { defer close(idle); p.running.Wait() }()
	await.Receive(t, "the end of what was under way", idle)
}
