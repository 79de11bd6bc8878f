package redisstore

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestALostReplyToAReleaseIsNoLoss(t *testing.T) {
	proxy, p, other := proxied(t, redistest.Shared(t))
	for _, leave := range []bool{false, true} {
		r := p.ref(time.Minute)
		p.get(r, store.Try)
		proxy.ResetCommands()
		proxy.DropReplies(1, faultproxy.MatchScript(releaseScript.text))
		_, err := p.giveBack(t.Context(), r, leave)
		wantLostReply(t, "Release", err)
		if n := proxy.Commands()["EVALSHA"]; n != 1 {
			t.Errorf("%d releases were sent, want 1: a second would report a loss", n)
		}
		other.release(other.take(), false, store.Freed) // for it was carried out
		p.release(r, leave, store.NotHeld)
	}
}

// Asked again, a pass says that next has the lock. If it is another waiter's by
// then, next asks for itself and finds its place.
func TestALostReplyToAPassIsFoundByAskingAgain(t *testing.T) {
	proxy, p, other := proxied(t, redistest.Shared(t))
	p.passOn(p.ref(time.Minute), p.ref(time.Minute), store.NotHeld, false) // the server knows the script
	for _, contended := range []bool{false, true} {
		held, next, waits := p.take(), p.ref(time.Minute), other.ref(time.Minute)
		if contended {
			other.refused(waits, store.Wait)
		}
		proxy.ResetCommands()
		proxy.DropReplies(1, faultproxy.MatchScript(releaseToScript.text))
		_, _, err := p.releaseTo(t.Context(), held, next, store.Place{})
		wantLostReply(t, "Release to the next", err)
		if n := proxy.Commands()["EVALSHA"]; n != 1 {
			t.Errorf("%d passes were sent, want 1", n)
		}
		a := p.passOn(held, next, store.NotHeld, !contended)
		if contended {
			p.refused(next, store.Wait)
			other.release(waits, false, store.HandedOver)
		}
		if got := p.get(next, store.Wait).Fence; !contended && got != a.Fence {
			t.Errorf("fence = %d, want %d as passed on", got, a.Fence)
		}
		p.release(next, false, store.Freed)
	}
}

func TestALostReplyToAnAcquireIsFoundByAskingAgain(t *testing.T) {
	proxy, p, _ := proxied(t, redistest.Shared(t))
	r := p.ref(time.Minute)
	proxy.DropReplies(1, faultproxy.MatchScript(acquireScript.text))
	_, err := p.Acquire(t.Context(), store.Request{Ref: r, Join: store.Try})
	wantLostReply(t, "Acquire", err)
	if n := proxy.Commands()["EVALSHA"]; n != 1 {
		t.Errorf("%d questions were sent, want 1", n)
	}
	fence := p.get(r, store.Try).Fence
	if got := p.get(r, store.Try).Fence; got != fence {
		t.Errorf("fence = %d, want %d as before", got, fence)
	}
}

func TestALostReplyToAWaitLeavesOnePlace(t *testing.T) {
	proxy, p, holder := proxied(t, redistest.Shared(t))
	held := holder.take()
	r := p.ref(time.Minute)
	proxy.DropReplies(1, faultproxy.MatchScript(acquireScript.text))
	_, err := p.Acquire(t.Context(), store.Request{Ref: r, Join: store.Wait})
	wantLostReply(t, "Acquire", err)
	p.refused(r, store.Wait)
	holder.release(held, false, store.HandedOver)
	p.get(r, store.Wait)
	p.release(r, false, store.Freed)
}

func TestALostReplyToARenewalIsFoundByAskingAgain(t *testing.T) {
	proxy, p, _ := proxied(t, redistest.Shared(t))
	r := p.take()
	proxy.DropReplies(1, faultproxy.MatchScript(renewScript.text))
	batch := []store.Renewal{{Ref: r}}
	p.Renew(t.Context(), batch)
	wantLostReply(t, "Renew", batch[0].Err)
	p.renew(r, true)
}

func wantLostReply(t *testing.T, what string, err error) {
	t.Helper()
	e := (*store.Error)(nil)
	if !errors.As(err, &e) || !e.Ambiguous || !e.Stale || e.Permanent || e.Pending {
		t.Errorf("%s whose reply was lost = %+v, want an ambiguous and stale error", what, err)
	}
}

// A restarted server has closed the connections of the pool. The first
// question finds out, and the next one is answered.
func TestARestartedServerIsStaleOnce(t *testing.T) {
	s := redistest.Real(t)
	p := open(t, s.Client(t), "kit")
	p.release(p.take(), false, store.Freed)
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	r := p.ref(time.Minute)
	_, err := p.Acquire(t.Context(), store.Request{Ref: r})
	if e := store.AsError(err); err != nil && !e.Stale {
		t.Errorf("Acquire = %+v, want an answer or a stale connection", e)
	}
	p.get(r, store.Try)
}

func TestAServerThatForgotTheScriptsIsTaught(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		proxy, p, _ := proxied(t, s)
		raw := s.Client(t)
		flush := func() {
			t.Helper()
			if err := raw.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			r := p.ref(time.Minute)
			flush()
			p.get(r, store.Try)
			flush()
			p.renew(r, true)
			flush()
			p.release(r, false, store.Freed)
		}
		for i := range 3 { // acquire and renew are to be learnt once more
			r := p.take()
			p.renew(r, true)
			p.release(r, false, store.Freed)
			if got, want := proxy.Commands()["EVAL"], 11; got != want {
				t.Errorf("round %d: %d scripts were sent by their text, want %d in all", i, got, want)
			}
		}
	})
}

func TestAServerThatForgotTheScriptsWithinAPipelineIsTaught(t *testing.T) {
	for _, after := range []int{1, 5, 9} {
		s := redistest.Embedded(t)
		p := open(t, s.Client(t), "kit")
		const n = 10
		batch := make([]store.Renewal, n)
		for i := range batch {
			batch[i].Ref = store.Ref{Key: string(rune('a' + i)), Token: p.NewToken(""), TTL: time.Second}
			if i%2 == 0 {
				p.get(batch[i].Ref, store.Try)
			}
			batch[i].TTL = time.Minute
		}
		p.Renew(t.Context(), batch) // has the server know the script
		var seen atomic.Int32
		s.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd != "EVALSHA" || int(seen.Add(1)) <= after {
				return false
			}
			c.WriteError("NOSCRIPT No matching script. Please use EVAL.")
			return true
		})
		p.Renew(t.Context(), batch)
		for i, r := range batch {
			if want := i%2 == 0; r.Held != want || r.Err != nil {
				t.Errorf("renewal %d of %d, scripts lost after %d: %v, %v, want %v, nil", i, n, after, r.Held, r.Err, want)
			}
		}
	}
}

// A renewal without an answer is not one that found the lock held.
func TestARenewalThatFailsDoesNotSayHeld(t *testing.T) {
	s := redistest.Embedded(t)
	p := open(t, s.Client(t), "kit")
	batch := []store.Renewal{{Ref: p.take()}}
	p.Renew(t.Context(), batch)
	s.SetError("LOADING Redis is loading the dataset in memory")
	p.Renew(t.Context(), batch)
	if batch[0].Held || batch[0].Err == nil {
		t.Errorf("Renew = %v, %v, want false and an error", batch[0].Held, batch[0].Err)
	}
}

// Nobody but the caller sends a question again, however the user's client is
// set up.
func TestQuestionsAreSentOnce(t *testing.T) {
	proxy := faultproxy.Start(t, redistest.Shared(t).Addr())
	client := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.MaxRetries = 5 })
	p := open(t, client, redistest.Prefix(t))
	p.release(p.take(), false, store.Freed)
	for what, ask := range p.questions(p.ref(time.Minute)) {
		if err := ask(); err != nil { // the server knows the script
			t.Fatalf("%s: %v", what, err)
		}
		before := proxy.Commands()["EVALSHA"]
		proxy.DropReplies(1, faultproxy.Match("EVALSHA"))
		wantLostReply(t, what, ask())
		if got := proxy.Commands()["EVALSHA"] - before; got != 1 {
			t.Errorf("%s was sent %d times, want once", what, got)
		}
	}
}
