package lockmw

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/report"
)

// What a Locker has for its policies in shadow: how many forecasts are under way, the inner Locker of their virtual locks, and which
// names are in shadow.

const (
	mostShadows = 4096        // forecasts that are under way at the same time; further ones are not made
	mixedStays  = time.Minute // for how long after somebody was seen who is not in shadow forecasts are called mixed
	mostInShade = 1024        // names that are remembered
	mostShouted = 20          // names that have a line of their own in the log within shoutEvery

	// shadowStays is for how long after its last call Stats say that a policy is in shadow. An alert looks at that for ten minutes: also
	// of a job that comes every five minutes it is to be seen.
	shadowStays = 15 * time.Minute
)

// shadows are the forecasts of a Locker, and what it knows of policies in shadow.
type shadows struct {
	perKey, total int // those who may wait, as in the Locker itself

	opening sync.Once
	locker  *Locker // has the virtual locks; nil: none was needed, or it cannot be made
	fault   error   // why it cannot be made

	mu      sync.Mutex // guards what follows
	ended   bool       // Close has begun: no more forecasts are made
	n       int        // those that are under way
	running sync.WaitGroup
	ctx     context.Context // ends when Close begins; nil: there was no forecast
	end     context.CancelFunc
	names   map[string]*shade
	others  shade     // of all names for which there is no room, together
	swept   time.Time // when names were looked for last that are in shadow no more
	minute  time.Time // since when lines are counted
	lines   int       // logged since then, each with a name
	many    bool      // since then the log has said that there are more
}

// A shade is what is known of the policies of one Name that are in shadow.
type shade struct {
	used, shouted, mixed time.Time // when last; zero: never
}

// A shouting is what is to be told of a policy that is used in shadow.
type shouting uint8

const (
	nothingNew shouting = iota
	toObservers
	toObserversAndLog
	ofMany // the same, but the line says that there are more policies than lines
)

// use notes that a policy in shadow is used, and has it shouted when that is due.
func (s *shadows) use(l *Locker, name string) {
	s.mu.Lock()
	due := s.note(name)
	s.mu.Unlock()
	l.shout(name, due)
}

// note is use, but for the shouting, which it says is due. The caller holds mu.
func (s *shadows) note(name string) (due shouting) {
	now := time.Now()
	known := s.names[name]
	if known == nil {
		known = s.place(name, now)
	}
	known.used = now
	if now.Sub(known.shouted) < shoutEvery {
		return nothingNew
	}
	known.shouted = now
	if now.Sub(s.minute) >= shoutEvery {
		s.minute, s.lines, s.many = now, 0, false
	}
	switch {
	case known != &s.others && s.lines < mostShouted:
		s.lines++
		return toObserversAndLog
	case !s.many:
		s.many = true
		return ofMany
	}
	return toObservers
}

// shadeOf returns what is known of a name; of one for which there is no room, what is known of all these; nil: its trial is over. The
// caller holds mu.
func (s *shadows) shadeOf(name string) *shade {
	known := s.names[name]
	if known == nil && len(s.names) >= mostInShade {
		known = &s.others
	}
	return known
}

// place remembers a name, and returns what is known of it. It has the place of one that is in shadow no more; of one that is, it must be
// known. The caller holds mu.
func (s *shadows) place(name string, now time.Time) *shade {
	if s.names == nil {
		s.names = make(map[string]*shade)
	}
	if len(s.names) >= mostInShade && now.Sub(s.swept) >= shoutEvery { // seldom, as a call waits for it
		s.swept = now
		maps.DeleteFunc(s.names, func(_ string, other *shade) bool { return now.Sub(other.used) >= shadowStays })
	}
	if len(s.names) >= mostInShade {
		return &s.others
	}
	known := new(shade)
	s.names[name] = known
	return known
}

// enter is use, and counts a forecast in. It reports false if none may be made: too many are under way, or the Locker is closed.
func (s *shadows) enter(l *Locker, name string) bool {
	s.mu.Lock()
	due := s.note(name)
	ok := !s.ended && s.n < mostShadows
	if ok {
		s.n++
		s.running.Add(1)
		if s.ctx == nil {
			s.ctx, s.end = context.WithCancel(context.Background())
		}
	}
	s.mu.Unlock()
	l.shout(name, due)
	return ok
}

// leave undoes enter.
func (s *shadows) leave() {
	s.mu.Lock()
	s.n--
	s.mu.Unlock()
	s.running.Done()
}

// life returns the context of forecasts, which ends when Close begins. There must have been one.
func (s *shadows) life() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx
}

// inner returns the Locker that has the virtual locks. Making it sends nothing.
func (s *shadows) inner(l *Locker) (*Locker, error) {
	s.opening.Do(func() {
		beside, err := l.store.Shadow()
		if err != nil {
			s.fault = err
			return
		}
		silent := report.New(slog.New(slog.DiscardHandler))
		s.locker = newLocker(beside, options{maxPerKey: s.perKey, maxTotal: s.total, reports: silent, logger: silent.Logger()})
		s.locker.checkOnce.Do(func() {}) // the outer one checks the server
	})
	return s.locker, s.fault
}

// close ends all forecasts, and the inner Locker. What that cannot give back ends by its TTL, and is in nobody's way.
func (s *shadows) close() {
	s.mu.Lock()
	s.ended = true
	end := s.end
	s.mu.Unlock()
	if end == nil {
		return
	}
	end()
	s.running.Wait()
	if s.locker != nil {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.locker.Close(over)
	}
}

// mixed notes that somebody was seen at a lock of that Name who is not in shadow.
func (s *shadows) mixed(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.shadeOf(name); known != nil {
		known.mixed = time.Now()
	}
}

// forget is told that a trial is over: the policies of that Name are in shadow no more.
func (s *shadows) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
}

// isMixed reports whether that was within the last minute.
func (s *shadows) isMixed(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.shadeOf(name)
	return known != nil && known.isMixed()
}

func (k *shade) isMixed() bool { return !k.mixed.IsZero() && time.Since(k.mixed) < mixedStays }

// count adds what is known of policies in shadow to the numbers of their names, and reports whether there are more.
func (s *shadows) count(names map[string]NameStats) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, known := range s.names {
		if known.isShown() {
			of := names[name]
			of.Shadow, of.Mixed = true, known.isMixed()
			names[name] = of
		}
	}
	return s.others.isShown()
}

func (k *shade) isShown() bool { return !k.used.IsZero() && time.Since(k.used) < shadowStays }

// shout says, to observers and in the log, that a policy is in shadow. It is logged also where nobody has given a logger: who has forgotten it
// believes that the lock is there.
func (l *Locker) shout(name string, due shouting) {
	if due == nothingNew {
		return
	}
	l.tellLater(context.Background(), Event{Kind: EventInShadow, Name: name})
	if due == toObserversAndLog {
		l.reports.Shouting().Warn("lockmw: the policy runs in shadow: nobody is locked out", "name", name)
	}
	if due == ofMany {
		l.reports.Shouting().Warn("lockmw: further policies run in shadow: nobody is locked out; they are too many to name each of them every minute")
	}
}
