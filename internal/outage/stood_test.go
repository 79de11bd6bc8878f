package outage

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
)

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
		s.takeIn(&store.Error{Err: refused, Evidence: store.Unreachable}, true)
		s.judge(at)
		if s.is.reach != Suspected || !s.is.since.Equal(at) {
			t.Errorf("reach %d since %v after now, want suspected since now", s.is.reach, s.is.since.Sub(at))
		}
	})
}

// A CPU limit has the process stand for 90 of each 100 ms. An answer that takes 240 ms is
// read late then, and is no silence; a server that answers nothing is found out all the same.
func TestAProcessThatStandsAgainAndAgain(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
		s := o.of("a")
		began := time.Now()
		stands := func(d time.Duration) { // each judgement is one of a process that has just run on
			s.mu.Lock()
			defer s.mu.Unlock()
			s.timer.Stop()
			for at := began.Add(90 * time.Millisecond); at.Sub(began) <= d; at = at.Add(100 * time.Millisecond) {
				s.judge(at)
			}
		}
		s.sent("a")
		s.mu.Lock()
		s.pings = map[*ping]struct{}{{waits: began.Add(50 * time.Millisecond), cancel: func() {}}: {}}
		s.mu.Unlock()
		stands(490 * time.Millisecond)
		if got := s.is.reach; got != Reachable {
			t.Errorf("reach %d after half a second of which the process ran a tenth", got)
		}
		began = s.ran.Add(10 * time.Millisecond)
		stands(400 * time.Millisecond)
		if got := s.is.reach; got != Suspected {
			t.Errorf("reach %d after a second without an answer", got)
		}
	})
}
