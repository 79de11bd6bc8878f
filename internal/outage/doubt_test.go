package outage

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRefusedIsSuspectedAtOnce(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, backs *atomic.Int64) {
		ctx := context.Background()
		p.says.Store(new(error(refused)))
		s := o.of("a")
		s.sent("a")
		s.ended(ctx, refused)
		wantReach(t, o, "a", Suspected)
		time.Sleep(AwayAfter)
		wantReach(t, o, "a", Away)
		if n := p.asked.Load(); n < 4 || n > 6 {
			t.Errorf("%d pings in a second", n)
		}
		time.Sleep(10 * time.Second)
		if n := p.asked.Load(); n > 50 {
			t.Errorf("%d pings in 11 s", n)
		}
		p.says.Store(new(error(tooFew))) // a refusal by a server that is there
		time.Sleep(pingEvery)
		wantReach(t, o, "a", Reachable)
		if backs.Load() != 1 {
			t.Errorf("back %d times", backs.Load())
		}
		// A suspicion that a ping does not share is over at once.
		s.sent("a")
		s.ended(ctx, refused)
		time.Sleep(watchEvery)
		wantReach(t, o, "a", Reachable)
	})
}

// A command whose connection was refused says nothing about connections that others have.
func TestARefusedConnectionIsAnOutageOnlyIfThePingSaysSo(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, backs *atomic.Int64) {
		p.steps.Store(&[]step{{true, 200 * time.Millisecond}})
		s := o.of("a")
		s.sent("a")
		s.ended(context.Background(), refused)
		wantReach(t, o, "a", Reachable)
		doubt := s.prospect()
		if !doubt.Doubted {
			t.Error("nobody doubts a server that has refused a connection")
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		select {
		case <-doubt.Changed:
		default:
			t.Error("whoever waits for the ping is not woken")
		}
		if got := s.prospect(); got.Doubted || got.Reach != Reachable || backs.Load() != 0 {
			t.Errorf("after an answer: %+v, back %d times", got, backs.Load())
		}
		p.says.Store(new(error(refused)))
		s.sent("a")
		s.ended(context.Background(), refused)
		time.Sleep(pingEvery + 200*time.Millisecond)
		wantReach(t, o, "a", Suspected)
	})
}

// Whoever waits until a server is back waits for the end of a doubt, too.
func TestAServerInDoubtIsNotKnownToBeReached(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
		p.steps.Store(&[]step{{true, 100 * time.Millisecond}})
		s := o.of("a")
		if !o.Reaches() {
			t.Error("a server that nobody has asked is not reached")
		}
		s.sent("a")
		s.ended(context.Background(), refused)
		if o.Reaches() {
			t.Error("a server that has refused a connection is reached before the ping's answer")
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if !o.Reaches() {
			t.Error("a server that has answered the ping is not reached")
		}
		p.says.Store(new(error(refused)))
		s.sent("a")
		s.ended(context.Background(), refused)
		time.Sleep(time.Second)
		if o.Reaches() {
			t.Error("a server that refuses pings is reached")
		}
		p.says.Store(nil)
		time.Sleep(time.Second)
		if !o.Reaches() {
			t.Error("a server that is back is not reached")
		}
	})
}
