package lockmw

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// waiters are the calls of Acquire that may wait, by token and by key. Those
// of one key form a line in the order in which they came. Only the first of a
// line polls Redis, on behalf of all: it keeps their places alive, finds a
// holder that died and grants whose message was lost.
type waiters struct {
	maxPerKey, maxTotal int
	spare               sync.Pool // of *waiter, which have left

	mu      sync.Mutex
	byToken map[string]*waiter
	lines   map[string]*line
}

type line struct {
	first, last *waiter
	length      int
	asked       time.Time // when the last question was put that was answered
	clock       serverClock
}

// A waiter is one call of Acquire in its line.
type waiter struct {
	key, token string
	granted    chan store.Grant // one: a token is granted once until it asks again
	wake       chan struct{}    // one: look at ask, and whether you are first
	ask        atomic.Bool      // put a question to Redis now

	line         *line
	before, next *waiter // in the line
}

// A serverClock is what the server's clock said to a question sent at sent,
// so it said so at sent or later.
type serverClock struct {
	sent   instant
	server int64 // µs
}

func newWaiters(perKey, total int) *waiters {
	return &waiters{
		maxPerKey: perKey,
		maxTotal:  total,
		byToken:   make(map[string]*waiter),
		lines:     make(map[string]*line),
	}
}

// join puts a new waiter at the end of its key's line, or returns nil when
// there are too many.
func (ws *waiters) join(key, token string) *waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ln := ws.lines[key]
	if len(ws.byToken) >= ws.maxTotal || ln != nil && ln.length >= ws.maxPerKey {
		return nil
	}
	if ln == nil {
		ln = new(line)
		ws.lines[key] = ln
	}
	w, ok := ws.spare.Get().(*waiter)
	if !ok {
		w = &waiter{granted: make(chan store.Grant, 1), wake: make(chan struct{}, 1)}
	}
	w.key, w.token, w.line, w.before = key, token, ln, ln.last
	if ln.last == nil {
		ln.first = w
	} else {
		ln.last.next = w
	}
	ln.last = w
	ln.length++
	ws.byToken[token] = w
	return w
}

// leave takes w out of its line, and out of use. The next one becomes first and
// is woken.
func (ws *waiters) leave(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.byToken, w.token)
	ln := w.line
	if w.next == nil {
		ln.last = w.before
	} else {
		w.next.before = w.before
	}
	if w.before == nil {
		ln.first = w.next
	} else {
		w.before.next = w.next
	}
	switch ln.length--; {
	case ln.length == 0:
		delete(ws.lines, w.key)
	case w.before == nil:
		ln.first.nudge(false)
	}
	w.retire()
	ws.spare.Put(w)
}

// retire makes w as good as new. A token is granted through its entry in
// byToken, so nothing reaches w any more.
func (w *waiter) retire() {
	select {
	case <-w.granted:
	default:
	}
	select {
	case <-w.wake:
	default:
	}
	w.ask.Store(false)
	w.key, w.token, w.line, w.before, w.next = "", "", nil, nil, nil
}

// first reports whether w polls for its line.
func (ws *waiters) first(w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.before == nil
}

// heard notes an answer for w's line: to a question put at asked, and what it
// said of the server's clock.
func (ws *waiters) heard(w *waiter, asked time.Time, clock serverClock) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ln := w.line
	ln.asked, ln.clock = asked, clock
}

// asked returns when the last question of w's line was put that was answered.
func (ws *waiters) asked(w *waiter) time.Time {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.line.asked
}

// since returns a moment that is not later than the server's time at, by what
// the server's clock said to w's line. ok is false if it said nothing yet, or
// something that another server must have said, as after a fail-over.
func (ws *waiters) since(w *waiter, at int64) (moment instant, ok bool) {
	ws.mu.Lock()
	clock := w.line.clock
	ws.mu.Unlock()
	if clock.server == 0 {
		return instant{}, false
	}
	passed := time.Duration(at-clock.server) * time.Microsecond
	passed -= passed.Abs() / 100 // the clocks' rates may differ by up to 1 %
	moment = clock.sent.add(passed)
	return moment, moment.mono <= now().mono
}

// grant delivers g to its waiter. It reports false when nobody waits for it.
func (ws *waiters) grant(g store.Grant) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w, ok := ws.byToken[g.Token]
	if !ok {
		return false
	}
	select {
	case w.granted <- g:
	default: // an older grant lies there unread; it is as good
	}
	return true
}

// askAgain has the waiter of token, if there is one, put its question again.
func (ws *waiters) askAgain(token string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w, ok := ws.byToken[token]; ok {
		w.nudge(true)
	}
}

// askFirstAgain has the first of key's line, if there is one, put its question
// again: the key is free.
func (ws *waiters) askFirstAgain(key string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ln := ws.lines[key]; ln != nil {
		ln.first.nudge(true)
	}
}

// askAllAgain has all waiters of w's line but w put their question again.
func (ws *waiters) askAllAgain(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for other := w.line.first; other != nil; other = other.next {
		if other != w {
			other.nudge(true)
		}
	}
}

// askFirstsAgain has the first of every line put its question again, and
// forgets what the server's clock said: it may be another server now.
func (ws *waiters) askFirstsAgain() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, ln := range ws.lines {
		ln.clock = serverClock{}
		ln.first.nudge(true)
	}
}

func (w *waiter) nudge(ask bool) {
	if ask {
		w.ask.Store(true)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
