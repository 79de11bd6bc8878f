package outage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// pings answers pings, for servers that are named by a key's first letter.
type pings struct {
	asked atomic.Int64
	mute  atomic.Bool           // no ping is answered
	says  atomic.Pointer[error] // to a ping
	steps atomic.Pointer[[]step]

	mu       sync.Mutex
	underWay []store.Progress // of all pings so far
}

// heard has all pings hear of the server.
func (p *pings) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.underWay {
		one.Heard()
	}
}

// A step is what a ping waits for before it is answered, and for how long.
type step struct {
	server bool
	takes  time.Duration
}

func (p *pings) Server(key string) string { return key[:1] }

func (p *pings) Ping(ctx context.Context, _ string, progress store.Progress) error {
	p.asked.Add(1)
	p.mu.Lock()
	p.underWay = append(p.underWay, progress)
	p.mu.Unlock()
	if steps := p.steps.Load(); steps != nil {
		for _, s := range *steps {
			progress.Waits(s.server)
			select {
			case <-time.After(s.takes):
			case <-ctx.Done():
				return &store.Error{Err: ctx.Err(), Ambiguous: true}
			}
		}
	}
	if p.mute.Load() {
		<-ctx.Done()
		return &store.Error{Err: ctx.Err(), Evidence: store.Silent}
	}
	if err := p.says.Load(); err != nil {
		return *err
	}
	return nil
}

// watched runs test with an outage whose pings are answered as p says.
func watched(t *testing.T, test func(t *testing.T, o *Outage, p *pings, backs *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, backs := new(pings), new(atomic.Int64)
		o := newOutage(p, func(Return) { backs.Add(1) })
		defer o.stop()
		test(t, o, p, backs)
	})
}

func wantReach(t *testing.T, o *Outage, key string, want Reach) {
	t.Helper()
	synctest.Wait()
	if got := o.Prospect(key); got.Reach != want {
		t.Errorf("%s: reach %d (%+v), want %d", key, got.Reach, got, want)
	}
}

var (
	refused  = &store.Error{Err: errors.New("connection refused"), Evidence: store.Unreachable}
	timedOut = &store.Error{Err: errors.New("timed out"), Evidence: store.Silent, Ambiguous: true}
	tooFew   = &store.Error{Err: errors.New("NOREPLICAS"), Evidence: store.Answered}
	cutOff   = &store.Error{Err: errors.New("EOF"), Ambiguous: true, Stale: true}
)

func TestSilenceIsSuspectedAndThenAway(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, backs *atomic.Int64) {
		ctx := context.Background()
		p.mute.Store(true)
		began := time.Now()
		s := o.of("a")
		s.sent("a")
		time.Sleep(pingAfter + SilentAfter - time.Millisecond)
		wantReach(t, o, "a", Reachable)
		time.Sleep(time.Millisecond)
		wantReach(t, o, "a", Suspected)
		wantReach(t, o, "b", Reachable) // another server
		if got := s.prospect(); got.Since != began || got.Silence != pingAfter+SilentAfter {
			t.Errorf("suspected since %v, silent for %v", got.Since.Sub(began), got.Silence)
		}
		time.Sleep(AwayAfter - pingAfter - SilentAfter)
		wantReach(t, o, "a", Away)
		s.ended(ctx, timedOut)
		wantReach(t, o, "a", Away)

		changed := s.prospect().Changed
		p.mute.Store(false)
		time.Sleep(pingEvery)
		wantReach(t, o, "a", Reachable)
		select {
		case <-changed:
		default:
			t.Error("whoever looks is not woken")
		}
		if backs.Load() != 1 || o.troubled.Load() != 0 {
			t.Errorf("back %d times, %d in trouble", backs.Load(), o.troubled.Load())
		}
		asked := p.asked.Load()
		time.Sleep(time.Minute)
		if n := p.asked.Load(); n > asked {
			t.Errorf("%d pings of a server that is well", n-asked)
		}
	})
}

// A command that hangs says nothing of the server while pings are answered: its
// connection may hang, or its script be slow.
func TestOneCommandThatHangsIsNoSilence(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, _ *pings, _ *atomic.Int64) {
		s := o.of("a")
		s.sent("a")
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			wantReach(t, o, "a", Reachable)
		}
		s.ended(context.Background(), timedOut)
		wantReach(t, o, "a", Reachable)
	})
}

// A ping that makes a connection waits for several answers, and for what is not the
// server. Each answer has its own time.
func TestAPingThatGoesOnIsNoSilence(t *testing.T) {
	const near, far = SilentAfter - 10*time.Millisecond, SilentAfter + 60*time.Millisecond
	for name, tc := range map[string]struct {
		steps []step
		want  Reach
	}{
		"answers from far away": {[]step{{true, near}, {true, near}, {true, near}, {true, near}, {true, near}}, Reachable},
		"slow credentials":      {[]step{{true, near}, {false, 20 * time.Second}, {true, near}}, Reachable},
		"one answer is missing": {[]step{{true, near}, {true, far}}, Suspected},
		"and then silence":      {[]step{{false, near}, {true, time.Hour}}, Suspected},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
				p.steps.Store(&tc.steps)
				s := o.of("a")
				s.sent("a")
				worst := Reachable
				for range 70 {
					time.Sleep(10 * time.Millisecond)
					worst = max(worst, s.prospect().Reach)
				}
				if worst != tc.want {
					t.Errorf("reach %d, want %d", worst, tc.want)
				}
			})
		})
	}
}

// A ping without an answer ends after a second, and leaves room for others.
func TestAPingThatHangsIsReplaced(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
		p.steps.Store(&[]step{{true, time.Hour}})
		s := o.of("a")
		s.sent("a")
		time.Sleep(10 * time.Second)
		wantReach(t, o, "a", Away)
		p.steps.Store(nil)
		time.Sleep(2 * pingEvery)
		wantReach(t, o, "a", Reachable)
	})
}

// Callers who leave early, one after the other, tell nothing by themselves; but
// together they have waited.
func TestCallersWhoLeaveEarlyFindSilence(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
		p.mute.Store(true)
		left, cancel := context.WithCancel(context.Background())
		cancel()
		s := o.of("a")
		for range 4 {
			s.sent("a")
			time.Sleep(50 * time.Millisecond)
			s.ended(left, &store.Error{Err: context.Canceled, Pending: true})
			wantReach(t, o, "a", Reachable)
		}
		time.Sleep(pingAfter + SilentAfter - 200*time.Millisecond)
		wantReach(t, o, "a", Suspected)
	})
}

func TestWhatIsNoSilence(t *testing.T) {
	for _, err := range []error{nil, tooFew, cutOff, errors.New("no rights to the credentials")} {
		t.Run(fmt.Sprint(err), func(t *testing.T) {
			watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
				p.says.Store(&err)
				s := o.of("a")
				for range 30 {
					s.sent("a")
					time.Sleep(50 * time.Millisecond)
					s.ended(context.Background(), err)
					wantReach(t, o, "a", Reachable)
				}
			})
		})
	}
}

// A server that has answered, and is known to be well, is found silent like any other,
// and so is one that was idle.
func TestSilenceOfAServerThatWasWell(t *testing.T) {
	for name, idle := range map[string]time.Duration{"busy": 0, "idle since a moment": watchEvery / 2, "idle": time.Minute} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
				s := o.of("a")
				for range 120 { // not at a moment at which watch looks
					s.sent("a")
					time.Sleep(time.Millisecond)
					s.ended(context.Background(), nil)
				}
				if !s.well.Load() && idle == 0 {
					t.Error("a server that answers is not known to be well")
				}
				time.Sleep(idle)
				p.mute.Store(true)
				s.sent("a1")
				time.Sleep(DoubtedFor)
				wantReach(t, o, "a", Suspected)
			})
		})
	}
}

// What goes out just when an answer comes counts as unanswered from then on.
func TestACommandBesideAnAnswerIsUnanswered(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
		p.mute.Store(true)
		s := o.of("a")
		s.sent("a")
		s.sent("a")
		time.Sleep(10 * time.Millisecond)
		s.ended(context.Background(), nil)
		if got := s.prospect().Silence; got != 0 {
			t.Errorf("silent for %v, an answer came just now", got)
		}
		time.Sleep(DoubtedFor)
		wantReach(t, o, "a", Suspected)
	})
}

// What the server says over any connection ends the silence: a ping of a moment ago shows
// nothing then, and the next one does.
func TestWhatIsHeardElsewhereEndsTheSilence(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
		p.mute.Store(true)
		s := o.of("a")
		s.sent("a")
		for range 20 {
			time.Sleep(240 * time.Millisecond)
			wantReach(t, o, "a", Reachable)
			p.heard()
		}
		time.Sleep(pingAfter + DoubtedFor)
		wantReach(t, o, "a", Suspected)
	})
}
