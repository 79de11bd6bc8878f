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
	name   string // as store.Pinger names it

	asking     atomic.Int64 // commands under way that somebody waits for
	unanswered atomic.Int64 // since when commands have been without an answer, by mono.Of; 0: none is
	well       atomic.Bool  // it is reachable, no ping of it and no line in the log matters, and watch runs again; set with mu held

	mu         sync.Mutex
	is         condition
	key        string // of a command a moment ago: pings ask about the same lock
	doubted    bool   // a command says that the server is away; a ping has to confirm it
	told       bool   // the log says that it does not answer, and it has not answered since
	pinged     bool   // a ping went out since the last answer
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
	s.well.Store(s.watched && s.is.reach == Reachable && !s.doubted && !s.told && !s.pinged && len(s.pings) == 0)
}

// ended notes what came of a command that sent has noted, and that was sent
// with ctx.
func (s *server) ended(ctx context.Context, err error) {
	s.asking.Add(-1)
	if err != nil && ctx.Err() != nil { // the caller left: the command may go on
		fault := *store.AsError(err)
		fault.Pending = true
		err = &fault
	}
	if err == nil && s.well.Load() { // takeIn would do no more
		s.listenAnew()
		return
	}
	s.mu.Lock()
	back := s.takeIn(err, false)
	s.mu.Unlock()
	back()
}

// unlessOver notes, where the store has panicked, that nobody waits any more for the command that sent
// has noted.
func (s *server) unlessOver(over *bool) {
	if !*over {
		s.asking.Add(-1)
	}
}

// takeIn takes in what came of a command or ping. The caller holds mu, and calls back
// without it: that tells of a server that was not reachable, and is.
func (s *server) takeIn(err error, ping bool) (back func()) {
	var fault *store.Error
	if err != nil {
		fault = store.AsError(err)
	}
	switch {
	case fault == nil || fault.Evidence == store.Answered:
		s.hears()
		s.doubt(false)
		since, told := s.is.since, s.told
		s.told = false
		if s.turn(answered, time.Time{}, nil) {
			r := Return{Server: s.name, After: time.Since(since), Told: told}
			return func() { s.outage.back(r) }
		}
	case fault.Evidence == store.Unreachable && !ping && s.is.reach == Reachable:
		// Its connection could not be made, perhaps: only a ping knows whether the server
		// answers over others.
		at := time.Now()
		s.doubt(true)
		s.keepWatch(at)
		s.ping(at)
	case fault.Evidence == store.Unreachable:
		at := time.Now()
		s.turn(certainlyAway, at, fault.Err)
		s.keepWatch(at)
		s.ping(at)
	case fault.Evidence == store.Silent, fault.Pending: // one command is no silence: that takes SilentAfter
		s.judge(time.Now())
	default: // such as a broken connection: it says nothing about the server, but it is no silence
		s.hears()
	}
	return func() {}
}

// tell notes that the log says that the server does not answer.
func (s *server) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is.reach == Reachable && !s.doubted && s.silence(time.Now()) == 0 {
		return
	}
	s.told = true
	s.well.Store(false) // takeIn sees the next answer
}

// doubt notes whether a ping has to confirm that the server is away, and wakes those who
// wait for that. The caller holds mu.
func (s *server) doubt(doubted bool) {
	if s.doubted == doubted {
		return
	}
	s.doubted = doubted
	if doubted {
		s.well.Store(false)
		s.outage.doubts.Add(1)
	} else {
		s.outage.doubts.Add(-1)
		s.wake()
	}
}

// hears notes that there is no silence, and what that says of pings: those that wait for
// an answer since before now may do so on a connection that hangs. The caller holds mu.
func (s *server) hears() {
	s.pinged = false
	for p := range s.pings {
		p.outdated = true
	}
	if s.silence(time.Now()) >= DoubtAfter {
		s.wake()
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
		s.doubt(false)
	case s.is.reach == Reachable:
		s.outage.troubled.Add(-1)
	}
	s.wake()
	return true
}

// wake wakes those who look at the server. The caller holds mu.
func (s *server) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// judge looks whether the server counts as silent, or as away, now that time has
// passed. The caller holds mu.
func (s *server) judge(at time.Time) {
	if !s.watched {
		return
	}
	// While this process did not run, because it was stopped or starved, no
	// answer could be read: that time says nothing about the server. All that is late
	// counts, since a limit on the process's CPU has it stand for less than a tenth
	// of a second, again and again.
	since := s.unanswered.Load()
	unanswered := mono.Time(since)
	s.leaveOut(&unanswered, at, 0)
	for p := range s.pings {
		s.leaveOut(&p.waits, at, 0)
	}
	s.leaveOut(&s.is.since, at, watchEvery)                 // of what people are told, hours later, not every moment
	s.unanswered.CompareAndSwap(since, mono.Of(unanswered)) // unless an answer has come meanwhile
	s.ran = at
	waits := false
	for p := range s.pings {
		waits = waits || p.unanswered(at)
		p.bound(at)
	}
	if silence := s.silence(at); silence >= SilentAfter && waits {
		s.turn(silent, at.Add(-silence), errSilent)
	}
	if s.is.reach == Suspected && at.Sub(s.is.since) >= AwayAfter {
		s.turn(lasting, at, nil)
	}
}

// leaveOut moves t, since when something goes on, by the time in which the process did not
// run until at, if that is more than least. The caller holds mu.
func (s *server) leaveOut(t *time.Time, at time.Time, least time.Duration) {
	ran := s.ran
	if t.After(ran) { // it began while the process stood, or after that
		ran = *t
	}
	if missed := at.Sub(ran) - watchEvery; missed > least && !t.IsZero() {
		*t = t.Add(missed)
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
	s.watched = !s.stopped && (s.is.reach != Reachable || asked || s.doubted || len(s.pings) > 0)
	if !s.watched {
		return
	}
	pause := watchEvery
	switch silence := s.silence(at); {
	case s.is.reach != Reachable || s.doubted || silence >= pingAfter:
		s.ping(at)
	case silence > 0:
		pause = pingAfter - silence
	}
	s.timer.Reset(pause)
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
	} else {
		p.Doubted = s.doubted || p.Silence >= DoubtAfter
	}
	return p
}

// errSilent is the cause of an outage in which commands and pings are not answered.
var errSilent = errors.New("no answer")
