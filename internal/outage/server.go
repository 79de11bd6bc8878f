package outage

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/mono"
	"github.com/lockmw/kit/internal/store"
)

// watchEvery is how often time is looked at, while a command is without an
// answer or the server is not reachable.
const watchEvery = 50 * time.Millisecond

// A server is one of those that a store keeps locks on.
//
// Every command is counted in and out, and nearly all find a server that is well. Then
// all that changes are the three atomics, and nobody takes the mutex. While it is not
// well whatever comes of a command matters, and so the mutex is taken, too.
type server struct {
	outage *Outage

	asking     atomic.Int64 // commands under way that somebody waits for
	unanswered atomic.Int64 // since when commands have been without an answer, by mono.Of; 0: none is
	well       atomic.Bool  // it is reachable, no ping of it matters, and watch runs again; set with mu held

	mu         sync.Mutex
	is         condition
	key        string    // of a command a moment ago: pings ask about the same lock
	heard      time.Time // the last time that it was no silence while a ping was under way
	pinged     bool      // a ping went out since the last answer
	pingedLast time.Time
	pings      map[*ping]struct{} // under way
	changed    chan struct{}      // closed when the reach changes; nil: nobody looks
	timer      *time.Timer        // calls watch
	watched    bool               // the timer is set
	ran        time.Time          // when judge ran last, while the timer was set
	stopped    bool
}

// sent notes that a command about key goes out.
func (s *server) sent(key string) {
	s.asking.Add(1)
	if s.unanswered.Load() == 0 { // otherwise the clock is not read: that costs more than all else here
		s.unanswered.CompareAndSwap(0, mono.Of(time.Now()))
	}
	if s.well.Load() {
		return // watch sees the command, since well is withdrawn before watch looks for some
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
	if !s.watched {
		s.keepWatch(time.Now())
	}
	s.well.Store(s.watched && s.is.reach == Reachable && !s.pinged && len(s.pings) == 0)
}

// ended notes what came of a command that sent has noted, and that was sent
// with ctx.
func (s *server) ended(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil { // the caller left: the command may go on
		fault := *store.AsError(err)
		fault.Pending = true
		err = &fault
	}
	s.asking.Add(-1)
	if err == nil && s.well.Load() { // takeIn would do no more
		s.listenAnew()
		return
	}
	s.mu.Lock()
	back := s.takeIn(err)
	s.mu.Unlock()
	if back {
		s.outage.back()
	}
}

// takeIn takes in what came of a command or ping, and reports whether a server
// that was not reachable is. The caller holds mu.
func (s *server) takeIn(err error) (back bool) {
	var fault *store.Error
	if err != nil {
		fault = store.AsError(err)
	}
	switch {
	case fault == nil || fault.Reach == store.Answered:
		s.hears()
		return s.turn(answered, time.Time{}, nil)
	case fault.Reach == store.Away:
		at := time.Now()
		s.turn(certainlyAway, at, fault.Err)
		s.keepWatch(at)
		s.ping(at)
	case fault.Reach == store.Silent, fault.Pending: // one command is no silence: that takes SilentAfter
		s.judge(time.Now())
	default: // such as a broken connection: it says nothing about the server, but it is no silence
		s.hears()
	}
	return false
}

// hears notes that there is no silence, and what that says of pings. The caller holds mu.
func (s *server) hears() {
	s.pinged = false
	if len(s.pings) > 0 {
		s.heard = time.Now()
	}
	s.listenAnew()
}

// listenAnew counts silence from now, if commands are under way. The caller need not
// hold mu: a command that goes out meanwhile is seen here, or sees that none was.
func (s *server) listenAnew() {
	s.unanswered.Store(0)
	if s.asking.Load() > 0 {
		s.unanswered.CompareAndSwap(0, mono.Of(time.Now()))
	}
}

// turn changes the condition, and wakes those who look at it. The caller holds mu.
func (s *server) turn(e event, at time.Time, cause error) (changed bool) {
	was := s.is.reach
	if !s.is.on(e, at, cause) {
		return false
	}
	switch {
	case was == Reachable:
		s.well.Store(false)
		s.outage.troubled.Add(1)
	case s.is.reach == Reachable:
		s.outage.troubled.Add(-1)
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	return true
}

// judge looks whether the server counts as silent, or as away, now that time has
// passed. The caller holds mu.
func (s *server) judge(at time.Time) {
	if !s.watched {
		return
	}
	// While this process did not run, because it was stopped or starved, no
	// answer could be read: that time says nothing about the server.
	since := s.unanswered.Load()
	unanswered := mono.Time(since)
	times := []*time.Time{&unanswered, &s.heard, &s.is.since}
	for p := range s.pings {
		times = append(times, &p.waits)
	}
	for _, t := range times {
		ran := s.ran
		if t.After(ran) { // it began while the process stood, or after that
			ran = *t
		}
		if missed := at.Sub(ran) - watchEvery; missed > watchEvery && !t.IsZero() {
			*t = t.Add(missed)
		}
	}
	s.unanswered.CompareAndSwap(since, mono.Of(unanswered)) // unless an answer has come meanwhile
	s.ran = at
	waits := false
	for p := range s.pings {
		waits = waits || p.unanswered(s.heard, at)
		p.bound(at)
	}
	if silence := s.silence(at); silence >= SilentAfter && waits {
		s.turn(silent, at.Add(-silence), errSilent)
	}
	if s.is.reach == Suspected && at.Sub(s.is.since) >= AwayAfter {
		s.turn(lasting, at, nil)
	}
}

// silence is how long commands have been without an answer.
func (s *server) silence(at time.Time) time.Duration {
	since := s.unanswered.Load()
	if since == 0 {
		return 0
	}
	return max(time.Duration(mono.Of(at)-since), 0) // an answer may be newer than at
}

// keepWatch sets the timer that calls watch, unless it is set. The caller holds mu.
func (s *server) keepWatch(at time.Time) {
	switch {
	case s.watched || s.stopped:
		return
	case s.timer == nil:
		s.timer = time.AfterFunc(watchEvery, s.watch)
	default:
		s.timer.Reset(watchEvery)
	}
	s.watched, s.ran = true, at
}

// watch judges the server again and again, until all that was sent is answered and
// the server is reachable.
func (s *server) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.well.Store(false) // the next command comes by the mutex: it has watch go on, and leaves its key
	at := time.Now()
	s.judge(at)
	asked := s.asking.Load() > 0 || s.unanswered.Load() != 0
	s.watched = !s.stopped && (s.is.reach != Reachable || asked || len(s.pings) > 0)
	if !s.watched {
		return
	}
	if s.is.reach != Reachable || s.silence(at) >= pingAfter {
		s.ping(at)
	}
	s.timer.Reset(watchEvery)
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// prospect returns what is known of the server now.
func (s *server) prospect() Prospect {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now()
	s.judge(at)
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	p := Prospect{Reach: s.is.reach, Since: s.is.since, Cause: s.is.cause, Silence: s.silence(at), Changed: s.changed}
	if p.Reach != Reachable {
		p.Age = at.Sub(p.Since)
	}
	return p
}

// errSilent is the cause of an outage in which commands and pings are not answered.
var errSilent = errors.New("no answer")
