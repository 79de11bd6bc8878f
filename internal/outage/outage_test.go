package outage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

func TestReachByState(t *testing.T) {
	names := []string{Reachable: "reachable", Suspected: "suspected", Away: "away"}
	signs := []string{answered: "answered", certainlyAway: "gone", silent: "silent", lasting: "lasting"}
	began, at := time.Unix(1, 0), time.Unix(2, 0)
	old, fresh := errors.New("old"), errors.New("fresh")
	for from, row := range map[Reach][]Reach{
		Reachable: {answered: Reachable, certainlyAway: Suspected, silent: Suspected, lasting: Reachable},
		Suspected: {answered: Reachable, certainlyAway: Suspected, silent: Suspected, lasting: Away},
		Away:      {answered: Reachable, certainlyAway: Away, silent: Away, lasting: Away},
	} {
		for s, to := range row {
			t.Run(names[from]+" "+signs[s], func(t *testing.T) {
				c := condition{reach: from}
				if from != Reachable {
					c.since, c.cause = began, old
				}
				want := condition{reach: to}
				switch {
				case to == Reachable:
				case from == Reachable:
					want.since, want.cause = at, fresh
				case event(s) == certainlyAway:
					want.since, want.cause = began, fresh
				default:
					want.since, want.cause = began, old
				}
				if changed := c.on(event(s), at, fresh); c != want || changed != (from != to) {
					t.Errorf("%+v, changed %t; want %+v", c, changed, want)
				}
			})
		}
	}
}

// pings answers pings, for servers that are named by a key's first letter.
type pings struct {
	asked atomic.Int64
	mute  atomic.Bool           // no ping is answered
	says  atomic.Pointer[error] // to a ping
	steps atomic.Pointer[[]step]
}

// A step is what a ping waits for before it is answered, and for how long.
type step struct {
	server bool
	takes  time.Duration
}

func (p *pings) Server(key string) string { return key[:1] }

func (p *pings) Ping(ctx context.Context, _ string, waits func(bool)) error {
	p.asked.Add(1)
	if steps := p.steps.Load(); steps != nil {
		for _, s := range *steps {
			waits(s.server)
			select {
			case <-time.After(s.takes):
			case <-ctx.Done():
				return &store.Error{Err: ctx.Err(), Ambiguous: true}
			}
		}
	}
	if p.mute.Load() {
		<-ctx.Done()
		return &store.Error{Err: ctx.Err(), Reach: store.Silent}
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
		o := newOutage(p, func() { backs.Add(1) })
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
	refused  = &store.Error{Err: errors.New("connection refused"), Reach: store.Away}
	timedOut = &store.Error{Err: errors.New("timed out"), Reach: store.Silent, Ambiguous: true}
	tooFew   = &store.Error{Err: errors.New("NOREPLICAS"), Reach: store.Answered}
	cutOff   = &store.Error{Err: errors.New("EOF"), Ambiguous: true, Stale: true}
)

func TestSilenceIsSuspectedAndThenAway(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, backs *atomic.Int64) {
		ctx := context.Background()
		p.mute.Store(true)
		began := time.Now()
		s := o.of("a")
		s.sent("a")
		time.Sleep(SilentAfter - time.Millisecond)
		wantReach(t, o, "a", Reachable)
		time.Sleep(time.Millisecond)
		wantReach(t, o, "a", Suspected)
		wantReach(t, o, "b", Reachable) // another server
		if got := s.prospect(); got.Since != began || got.Silence != SilentAfter {
			t.Errorf("suspected since %v, silent for %v", got.Since.Sub(began), got.Silence)
		}
		time.Sleep(AwayAfter - SilentAfter)
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
	const near, far = pingLeast - 20*time.Millisecond, pingLeast + 60*time.Millisecond
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
				for range 50 {
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
		time.Sleep(50 * time.Millisecond)
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

// What a process that was stopped has not read, nobody has failed to send.
func TestTimeInWhichTheProcessStoodIsNoSilence(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
		p.mute.Store(true)
		s := o.of("a")
		s.sent("a")
		time.Sleep(pingAfter + 10*time.Millisecond)
		s.mu.Lock()
		s.judge(time.Now().Add(5 * time.Second)) // it did not run in between
		if s.is.reach != Reachable || s.silence(s.ran) >= SilentAfter {
			t.Errorf("reach %d after a silence of %v", s.is.reach, s.silence(s.ran))
		}
		s.mu.Unlock()
	})
}

// What is learnt first when the process goes on is newer than the time in which it
// stood.
func TestAnOutageThatIsSeenAfterTheProcessStoodBeginsThen(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
		p.mute.Store(true)
		s := o.of("a")
		s.sent("a")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ran = s.ran.Add(-5 * time.Second) // it did not run until now
		at := time.Now()
		s.takeIn(&store.Error{Err: refused, Reach: store.Away})
		s.judge(at)
		if s.is.reach != Suspected || !s.is.since.Equal(at) {
			t.Errorf("reach %d since %v after now, want suspected since now", s.is.reach, s.is.since.Sub(at))
		}
	})
}

func TestAnOutageSaysSinceWhen(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	err := Prospect{Since: since, Age: 1500 * time.Millisecond, Cause: refused}.Err()
	if got := err.Error(); !strings.Contains(got, "since 2026-01-02T03:04:05Z (for 1.5s): connection refused") || !errors.Is(err, refused) {
		t.Errorf("err = %v", got)
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
				time.Sleep(SilentAfter + watchEvery)
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
		time.Sleep(SilentAfter + watchEvery)
		wantReach(t, o, "a", Suspected)
	})
}
