package report

import (
	"sync"
	"time"
)

const (
	// lineEvery is how often a line of one kind is logged: often enough to be noticed,
	// and not so often that contention fills a disk.
	lineEvery = time.Second

	// mostKinds bounds what is remembered. What is forgotten for another kind is logged
	// again as if it were the first.
	mostKinds = 1024

	// mostLines is how many lines are logged in a second, of all kinds: a program that
	// makes a name for each tenant, or a mistake's text for each request, would fill a
	// disk with first ones.
	mostLines = 100
)

// A Limiter decides which lines are logged: of each kind the first, and later ones at most
// once a second. Of a mistake, which does not pass as long as the program runs, it is the
// first alone. Beyond 100 lines in a second none is. The zero Limiter has logged nothing.
// It is safe for concurrent use.
type Limiter struct {
	mu     sync.Mutex
	last   map[Kind]count
	second time.Time // since when lines are counted
	lines  int       // logged since then
	over   int       // were not logged because of mostLines, since the last line
}

// A Kind is what lines have in common of which one is logged.
type Kind struct {
	Name, Reason string // of the lock, and of what happened to it
	Mistake      string // in words; empty for what passes
}

type count struct {
	logged time.Time // when one was logged last
	quiet  int       // how many were not, since then
}

// Admits reports whether a line of that kind is to be logged now, and how many were not
// since the last one. at is now.
func (l *Limiter) Admits(kind Kind, at time.Time) (quiet int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, known := l.last[kind]
	if known && (kind.Mistake != "" || at.Sub(c.logged) < lineEvery) {
		c.quiet++
		l.last[kind] = c
		return 0, false
	}
	if at.Sub(l.second) >= time.Second {
		l.second, l.lines = at, 0
	}
	if l.lines == mostLines {
		l.over++
		return 0, false
	}
	quiet = c.quiet + l.over
	l.lines, l.over = l.lines+1, 0
	if l.last == nil {
		l.last = make(map[Kind]count)
	}
	for other := range l.last { // any
		if known || len(l.last) < mostKinds {
			break
		}
		delete(l.last, other)
	}
	l.last[kind] = count{logged: at}
	return quiet, true
}
