package redisstore

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

// bySet opens a Store that takes free locks by SET from now on: it knows the server's
// clock.
func bySet(t *testing.T, client redis.UniversalClient, ns string) *probe {
	t.Helper()
	p := open(t, client, ns)
	p.release(p.take(), false, store.Freed)
	return p
}

// took takes the lock by SET, and returns it with its fence.
func (p *probe) took(client *redis.Client) store.Ref {
	p.Helper()
	r := p.ref(time.Minute)
	noteGrant(&r, p.get(r, store.Wait))
	if got := client.Get(p.Context(), p.keys("k")[0]).Val(); !strings.HasPrefix(got, r.Token+":~") {
		p.Errorf("the lock is %q, want that it was taken by SET", got)
	}
	return r
}

// half has the lock taken by SET as p does it, and nothing else.
func (p *probe) half(client *redis.Client) store.Ref {
	p.Helper()
	r := p.ref(time.Minute)
	value := r.Token + ":~" + client.Do(p.Context(), "TIME").Val().([]any)[0].(string) + "000000"
	if err := client.Do(p.Context(), "SET", p.keys("k")[0], value, "NX", "PX", 60_000).Err(); err != nil {
		p.Fatal(err)
	}
	return r
}

func TestAFreeLockIsTakenBySet(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := bySet(t, client, ns), open(t, client, ns)
		r := p.took(client)
		if ttl := client.PTTL(t.Context(), p.keys("k")[0]).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the lock's TTL is %v, want a minute", ttl)
		}
		a := other.refused(other.ref(time.Minute), store.Try)
		if a.Holder.Instance != p.Instance() || a.HolderFence == 0 || a.Holder.Age > patience || a.Left > time.Minute {
			t.Errorf("refused with %+v, want what the holder is", a)
		}
		p.renew(r, true)
		p.release(r, false, store.Freed)
		next := other.take()
		p.release(r, false, store.NotHeld)
		p.renew(r, false)
		other.release(next, false, store.Freed)
		if keys := client.Keys(t.Context(), ns+"*").Val(); len(keys) > 0 {
			t.Errorf("left: %q", keys)
		}
	})
}

func TestALockThatWasTakenBySetIsHandedOver(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := bySet(t, client, ns), bySet(t, client, ns)
		for range 3 {
			r, waits := p.took(client), other.ref(time.Minute)
			other.refused(waits, store.Wait)
			p.release(r, false, store.HandedOver)
			if fence := other.get(waits, store.Wait).Fence; fence <= r.Fence {
				t.Errorf("fence %d after %d, want a higher one", fence, r.Fence)
			}
			other.release(waits, false, store.Freed)
			client.FlushDB(t.Context())
		}
	})
}

// The lock came free while others wait, since its holder died. SET takes it before
// them, and they have it all the same.
func TestSetDoesNotOvertakeThoseWhoWait(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other, dead := bySet(t, client, ns), bySet(t, client, ns), bySet(t, client, ns)
		dead.took(client)
		waits := other.ref(time.Minute)
		other.refused(waits, store.Wait)
		client.Del(t.Context(), p.keys("k")[0])
		behind := p.ref(time.Minute)
		p.refused(behind, store.Wait)
		p.refused(p.ref(time.Minute), store.Try)
		other.get(waits, store.Wait)
		other.release(waits, false, store.HandedOver)
		p.get(behind, store.Wait)
		p.release(behind, true, store.Freed)
	})
}

// Another one asks between our SET and our EXISTS: it stands in the queue then, behind us,
// and asking again finds that nobody has been overtaken.
func TestAnotherAsksBetweenSetAndExists(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := bySet(t, client, ns), bySet(t, client, ns)
		for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
			ours, waits := p.half(client), other.ref(time.Minute)
			other.refused(waits, store.Wait)
			other.refused(waits, store.Wait)
			noteGrant(&ours, p.get(ours, join))
			other.refused(waits, store.Wait)
			p.release(ours, false, store.HandedOver)
			if fence := other.get(waits, store.Wait).Fence; fence <= ours.Fence {
				t.Errorf("fence %d after %d, want a higher one", fence, ours.Fence)
			}
			other.release(waits, false, store.Freed)
			client.FlushDB(t.Context())
		}
	})
}

// We stop after SET: whoever cleans up gives the lock to those who wait.
func TestALockThatWasTakenByHalfIsGivenBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := bySet(t, client, ns), bySet(t, client, ns)
		ours, waits := p.half(client), other.ref(time.Minute)
		other.refused(waits, store.Wait)
		p.release(ours, true, store.HandedOver)
		other.get(waits, store.Wait)
		other.release(waits, false, store.Freed)
		p.release(p.half(client), true, store.Freed)
		if got := p.get(p.half(client), store.Try).Fence; got < time.Now().Add(-time.Hour).UnixMicro() {
			t.Errorf("fence %d, want the time", got)
		}
	})
}

// A fence that is kept beside the lock, for the clock is behind it, counts.
func TestSetHeedsAFenceThatIsKept(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p := bySet(t, client, ns)
		kept := time.Now().Add(time.Hour).UnixMicro()
		if err := client.Set(t.Context(), p.keys("k")[3], kept, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		r := p.ref(time.Minute)
		if noteGrant(&r, p.get(r, store.Try)); r.Fence <= kept {
			t.Errorf("fence %d, want more than %d", r.Fence, kept)
		}
		p.release(r, false, store.Freed)
	})
}

// Where a script has to be asked, the four commands tell no answer of their own.
func TestSetAnswersOnlyWhatIsCertain(t *testing.T) {
	client, ns := redistest.Shared(t).Client(t), redistest.Prefix(t)
	p := bySet(t, client, ns)
	wantNone := func(what string, want progress) {
		t.Helper()
		a, at, err := p.set(t.Context(), store.Request{Ref: p.ref(time.Minute)}, time.Now(), time.Now().Add(opTimeout), nil)
		if a != (store.Answer{}) || at != want || err != nil {
			t.Errorf("%s: set = %+v, %v, %v, want no answer, %v", what, a, at, err, want)
		}
	}
	p.took(client)
	wantNone("the lock is taken", notTaken)
	client.Del(t.Context(), p.keys("k")[0])
	if err := client.Set(t.Context(), p.keys("k")[3], 1, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	wantNone("a fence is kept", takenInDoubt)
}

// Where Redis refuses a command behind SET, as after the ACL has changed, SET has taken the lock: the error must say that
// something may be left, or nobody removes it.
func TestARefusalBehindSetIsInDoubt(t *testing.T) {
	m := redistest.Embedded(t)
	client := m.Client(t)
	p := bySet(t, client, "kit")
	for _, refused := range []string{"EXISTS", "TIME", "GET"} {
		m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd != refused {
				return false
			}
			c.WriteError("NOPERM no permissions")
			return true
		})
		r := p.ref(time.Minute)
		_, err := p.Acquire(t.Context(), store.Request{Ref: r})
		m.Server().SetPreHook(nil)
		if e := store.AsError(err); !e.Ambiguous || !e.Permanent || e.Evidence != store.Answered {
			t.Errorf("Acquire where %s is refused = %+v, want it in doubt and permanent", refused, e)
		}
		if value := client.Get(t.Context(), p.keys("k")[0]).Val(); !strings.HasPrefix(value, r.Token) {
			t.Errorf("where %s is refused the lock is %q, want it to be taken", refused, value)
		}
		p.leave(r, true)
	}
}

// A script may wait while the server is behind only if nothing depends on it yet.
func TestOnlyAFirstQuestionIsPatient(t *testing.T) {
	again, placed := store.Request{Again: true}, store.Request{Place: store.Place{Waited: time.Second}}
	for _, c := range []struct {
		at   progress
		r    store.Request
		want bool
	}{
		{notSent, store.Request{}, true},
		{notSent, again, false},
		{notSent, placed, false},
		{notTaken, store.Request{}, false}, // Redis has answered that the lock is taken
		{takenInDoubt, store.Request{}, false},
	} {
		if got := patient(c.at, c.r); got != c.want {
			t.Errorf("patient(%v, %+v) = %v, want %v", c.at, c.r, got, c.want)
		}
	}
}

// Who was held back has left nothing in Redis, and Redis has not answered.
func TestWhoWasHeldBackLeavesNothingBehind(t *testing.T) {
	e := new(Store).unanswered(t.Context(), &wire.Error{Err: wire.ErrBehind})
	if e.Ambiguous || e.Permanent || e.Pending || e.Evidence != store.Silent {
		t.Errorf("%+v, want a silent Redis and nothing to clean up", e)
	}
}

// Both sides must mean the same by OFF_US: it bounds how far a fence that only its holder
// knows may be from what the lock's value says.
func TestScriptsKnowHowFarAFenceMayBeOff(t *testing.T) {
	off := regexp.MustCompile(`(?m)^local OFF_US += (\d+)`).FindStringSubmatch(lockLua)
	if len(off) != 2 || off[1] != strconv.FormatInt(offMost.Microseconds(), 10) {
		t.Errorf("lock.lua says %q, want an OFF_US of %d µs", off, offMost.Microseconds())
	}
}

func TestALostReplyToSetIsFoundByAskingAgain(t *testing.T) {
	proxy, p, other := proxied(t, redistest.Shared(t))
	p.scripted = false
	for _, command := range []string{"SET", "EXISTS", "TIME"} {
		r := p.ref(time.Minute)
		proxy.DropReplies(1, faultproxy.Match(command))
		_, err := p.Acquire(t.Context(), store.Request{Ref: r})
		wantLostReply(t, "Acquire", err)
		other.refused(other.ref(time.Minute), store.Try)
		noteGrant(&r, p.get(r, store.Try))
		p.renew(r, true)
		p.release(r, false, store.Freed)
	}
}

// Who holds a lock may be forced to give it up, and the next fence is higher.
func TestForceReleaseOfALockThatWasTakenBySet(t *testing.T) {
	client, ns := redistest.Shared(t).Client(t), redistest.Prefix(t)
	p, other := bySet(t, client, ns), bySet(t, client, ns)
	for range 50 {
		r := p.took(client)
		if err := other.ForceRelease(t.Context(), "k", store.Intervention{}); err != nil {
			t.Fatal(err)
		}
		next := other.ref(time.Minute)
		if noteGrant(&next, other.get(next, store.Try)); next.Fence <= r.Fence {
			t.Errorf("fence %d after %d, want a higher one", next.Fence, r.Fence)
		}
		p.release(r, false, store.NotHeld)
		other.release(next, false, store.Freed)
		client.Del(t.Context(), p.keys("k")[3]) // SET does not take a lock beside which a fence is kept
	}
}

// A caller that leaves between its question and the replies: Late is told what the four
// of them mean.
func TestWhatComesLateOfSet(t *testing.T) {
	for _, queued := range []bool{false, true} {
		proxy, p, other := proxied(t, redistest.Shared(t))
		p.scripted = false
		if queued {
			held, waits := other.take(), other.ref(time.Minute)
			other.refused(waits, store.Wait)
			redistest.Shared(t).Client(t).Del(t.Context(), other.keys(held.Key)[0])
		}
		proxy.Stall(faultproxy.ToClient)
		ctx, cancel := context.WithCancel(t.Context())
		lates, returned := make(chan late, 10), make(chan error, 1)
		r := p.ref(time.Minute)
		go func() {
			_, err := p.Acquire(ctx, store.Request{Ref: r, Late: func(a store.Answer, err error) { lates <- late{a, err} }})
			returned <- err
		}()
		await.Until(t, "the question is under way", func() bool { return proxy.Commands()["TIME"] == 1 })
		cancel()
		if e := store.AsError(await.Receive(t, "Acquire to return", returned)); !e.Pending || !errors.Is(e, context.Canceled) {
			t.Errorf("Acquire = %+v, want it pending", e)
		}
		proxy.Heal()
		got := await.Receive(t, "Late", lates)
		if ambiguous := got.err != nil && store.AsError(got.err).Ambiguous; ambiguous != queued || got.answer.Granted == queued {
			t.Errorf("queued %v: Late was told %+v", queued, got)
		}
		p.leave(r, true)
	}
}
