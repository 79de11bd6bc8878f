package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/faultproxy"
	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/testenv"
)

// atOnce has the questions go together, and returns when all are answered.
func (p *probe) atOnce(questions ...func()) {
	p.Helper()
	s := p.sender
	s.mu.Lock()
	s.crowd, s.lanes, s.hurried = true, s.lanes+s.crowded, 0 // no lane is free, nor can one be made
	usual, max := s.usual, s.max
	s.usual, s.max = 0, 0
	s.mu.Unlock()
	var all []<-chan struct{}
	for i, ask := range questions {
		done := make(chan struct{})
		go func() {
			defer close(done)
			ask()
		}()
		all = append(all, done)
		eventually(p.T, "the question waits", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.waiting.n == i+1
		})
	}
	s.mu.Lock()
	s.lanes, s.usual, s.max = s.lanes-s.crowded+1, usual, max
	s.running.Add(1)
	s.mu.Unlock()
	s.lane(nil, nil)
	for _, done := range all {
		await(p.T, "an answer", done)
	}
}

// Whatever a question finds, its answer is the one that it would get alone.
func TestQuestionsThatGoTogetherAreAnsweredAsAlone(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := open(t, client, ns), open(t, client, ns)
		ref := func(key string) store.Ref {
			return store.Ref{Key: key, Token: p.NewToken(), TTL: time.Minute}
		}
		for _, known := range []bool{false, true} { // the scripts are
			if !known {
				client.ScriptFlush(t.Context())
			}
			held, asked, lapsed := ref("held"), ref("asked"), ref("lapsed")
			p.get(held, store.Try)
			p.get(asked, store.Try)
			waits := ref("asked")
			waits.Token = other.NewToken()
			other.refused(waits, store.Wait)
			readers := ref("readers")
			readers.Kind.Shared = true
			p.get(readers, store.Try)
			if err := client.Set(t.Context(), p.keys("foreign")[0], "data", time.Minute).Err(); err != nil {
				t.Fatal(err)
			}

			free, second, reader := ref("free"), ref("held"), readers
			reader.Token = p.NewToken()
			acquire := func(r store.Ref, join store.Join, want bool) func() {
				return func() {
					a := p.ask(r, join)
					if a.Granted != want || a.Granted != (a.Fence > 0) || a.Server == 0 || !want && a.Left == 0 {
						t.Errorf("%s (scripts known: %v): Acquire = %+v, want granted %v", r.Key, known, a, want)
					}
				}
			}
			release := func(r store.Ref, want store.Released) func() { return func() { p.release(r, false, want) } }
			p.atOnce(
				acquire(free, store.Try, true), acquire(second, store.Wait, false),
				acquire(reader, store.Wait, true), acquire(ref("foreign"), store.Try, false),
				release(asked, store.HandedOver), release(lapsed, store.NotHeld), release(readers, store.Freed),
			)
			p.renew(free, true)
			p.atOnce(release(free, store.Freed), release(held, store.HandedOver), release(reader, store.Freed))
			p.renew(second, true)
			p.release(second, true, store.Freed)
			other.release(waits, true, store.Freed)
			if keys := client.Keys(t.Context(), ns+"*").Val(); len(keys) != 1 {
				t.Errorf("left: %q, want the foreign data", keys)
			}
			client.FlushDB(t.Context())
		}
	})
}

func TestQuestionsThatGoTogetherAreOneCommand(t *testing.T) {
	proxy, p, _ := proxied(t, redistest.Shared(t))
	refs := make([]store.Ref, 10)
	var acquires, releases []func()
	for i := range refs {
		refs[i] = store.Ref{Key: fmt.Sprint("k", i), Token: p.NewToken(), TTL: time.Minute}
		acquires = append(acquires, func() { p.get(refs[i], store.Try) })
		releases = append(releases, func() { p.release(refs[i], false, store.Freed) })
	}
	p.atOnce(acquires...)
	p.atOnce(releases...)
	if n := proxy.Commands()["EVALSHA"]; n != 2 {
		t.Errorf("%d commands for ten locks and their releases, want 2", n)
	}
}

// A question without an answer is told so, whichever came first.
func TestALostReplyToQuestionsThatGoTogetherLeavesEachOpen(t *testing.T) {
	proxy, p, beside := proxied(t, redistest.Shared(t))
	proxy.DropReplies(1, faultproxy.MatchScript(Scripts()["many"]))
	refs := []store.Ref{{Key: "a"}, {Key: "b"}}
	var asks []func()
	for i := range refs {
		refs[i].Token, refs[i].TTL = p.NewToken(), time.Minute
		asks = append(asks, func() {
			_, err := p.Acquire(t.Context(), store.Request{Ref: refs[i]})
			if e := (*store.Error)(nil); !errors.As(err, &e) || !e.Ambiguous || e.Permanent {
				t.Errorf("Acquire = %v, want an ambiguous error", err)
			}
		})
	}
	p.atOnce(asks...)
	for _, r := range refs {
		beside.release(r, false, store.Freed) // it was carried out
	}
}

// A crowd is many calls at once. It has few lanes, and the usual ones again when
// it is over.
func TestACrowdHasFewLanes(t *testing.T) {
	f := newFakeCarrier(4, 4)
	f.sender.crowded = 1
	var asked []<-chan any
	for range 4 {
		asked = append(asked, f.ask(t.Context(), time.Minute))
		await(t, "a call", f.batches)
	}
	f.sender.max = 4 // nobody hurries
	for i := range 3 {
		asked = append(asked, f.ask(t.Context(), time.Minute))
		f.wait(t, i+1)
	}
	eventually(t, "a crowd is seen", func() bool {
		f.sender.mu.Lock()
		defer f.sender.mu.Unlock()
		return f.sender.crowd
	})
	for range 3 {
		f.answers <- "one"
	}
	eventually(t, "three lanes end", func() bool {
		f.sender.mu.Lock()
		defer f.sender.mu.Unlock()
		return f.sender.lanes == 1
	})
	if len(f.batches) > 0 {
		t.Error("calls of a crowd went over one of the usual lanes")
	}
	f.answers <- "one"
	if got := await(t, "a batch", f.batches); len(got) != 3 {
		t.Errorf("%d calls together, want 3", len(got))
	}
	f.answers <- "three"
	for _, outcome := range asked {
		await(t, "an answer", outcome)
	}
	eventually(t, "the crowd is over", func() bool {
		f.sender.mu.Lock()
		defer f.sender.mu.Unlock()
		return !f.sender.crowd
	})
	asked = asked[:0]
	for range 4 {
		asked = append(asked, f.ask(t.Context(), time.Minute))
		if got := await(t, "a call", f.batches); len(got) != 1 {
			t.Errorf("%d calls together, want 1", len(got))
		}
	}
	for _, outcome := range asked {
		f.answers <- "one"
		_ = outcome
	}
	for _, outcome := range asked {
		await(t, "an answer", outcome)
	}
	f.sender.wait()
}

// Nobody asks any more, and the next one is no crowd.
func TestACrowdIsOverThoughNobodyAsks(t *testing.T) {
	f := newFakeCarrier(1, 1)
	go func() {
		for range f.batches {
			f.answers <- "one"
		}
	}()
	defer close(f.batches)
	for range 20 { // each is over before the next look at the calls, or the test is easier
		first, second := f.ask(t.Context(), time.Minute), f.ask(t.Context(), time.Minute)
		await(t, "an answer", first)
		await(t, "an answer", second)
	}
	f.sender.wait()
	eventually(t, "the crowd is over", func() bool {
		f.sender.mu.Lock()
		defer f.sender.mu.Unlock()
		return !f.sender.crowd
	})
}

func TestCallsAreListedInTheirOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var list calls
	var want []*call
	for range 1000 {
		if i := random.IntN(2 * (len(want) + 1)); i < len(want) {
			list.remove(want[i])
			want = slices.Delete(want, i, i+1)
		} else {
			c := new(call)
			list.add(c)
			want = append(want, c)
		}
		var got []*call
		var before *call
		for c := list.first; c != nil; c = c.after {
			if c.before != before {
				t.Fatal("a call does not know the one before it")
			}
			got, before = append(got, c), c
		}
		if !slices.Equal(got, want) || list.n != len(want) || list.last != before {
			t.Fatalf("%d calls, %d in the list, want %d", list.n, len(got), len(want))
		}
	}
}

// The caller of a call that was never sent learns just that.
func TestACallWhoseContextHasEndedIsNotSent(t *testing.T) {
	f := newFakeCarrier(1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err, _ := await(t, "the call", f.ask(ctx, time.Minute)).(error)
	if e := store.AsError(err); !errors.Is(err, context.Canceled) || e.Ambiguous {
		t.Errorf("error = %+v, want the context's, unambiguous", e)
	}
}

// A Cluster may look like a single server, and refuses what concerns several slots.
func TestSlotsAreAskedAboutOneByOne(t *testing.T) {
	testenv.Slow(t)
	shards := redistest.Cluster(t)
	p := open(t, shards.Nodes[0].Client(t), redistest.Prefix(t))
	p.suits.Store(true) // whatever stands in front of that Cluster hides it
	var asks []func()
	for i := 0; len(asks) < 4; i++ {
		r := store.Ref{Key: fmt.Sprint("k", i), Token: p.NewToken(), TTL: time.Minute}
		if owner, err := shards.Owner(t.Context(), p.keys(r.Key)[0]); err != nil {
			t.Fatal(err)
		} else if owner != shards.Nodes[0] {
			continue
		}
		p.get(r, store.Try)
		asks = append(asks, func() { p.release(r, false, store.Freed) })
	}
	p.atOnce(asks...)
	if !p.apart.Load() {
		t.Error("the next questions go into one again, in vain")
	}
}

// What is open when its caller has left is not asked: nobody would take the lock.
func TestAQuestionThatIsOpenIsNotAskedForNobody(t *testing.T) {
	proxy, p, _ := proxied(t, redistest.Shared(t))
	held := p.take()
	proxy.ResetCommands()
	proxy.Delay(faultproxy.ToClient, 400*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	lates := make(chan late, 2)
	ask := func() {
		_, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute), Late: func(a store.Answer, err error) { lates <- late{a, err} }})
		if e := store.AsError(err); !e.Pending {
			t.Errorf("Acquire = %v, want a pending error", err)
		}
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		p.atOnce(ask, ask)
	}()
	eventually(t, "the questions are under way", func() bool { return proxy.Commands()["EVALSHA"] == 1 })
	cancel()
	eventually(t, "the callers leave", func() bool {
		p.sender.mu.Lock()
		defer p.sender.mu.Unlock()
		return p.sender.open() == 0
	})
	proxy.Delay(faultproxy.ToClient, 0)
	for range 2 {
		if got := await(t, "Late", lates); got.err == nil || store.AsError(got.err).Ambiguous {
			t.Errorf("Late was told %+v, want an error that leaves nothing open", got)
		}
	}
	await(t, "the lane", answered)
	if n := proxy.Commands()["EVALSHA"]; n != 1 {
		t.Errorf("%d commands, want 1", n)
	}
	p.release(held, false, store.Freed)
}
