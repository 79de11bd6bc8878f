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
// holder that died and grants whose message was lost. See cohort.go for those
// of whom Redis need not know.
type waiters struct {
	maxPerKey, maxTotal int
	cohorts             bool      // see cohort.go
	spare               sync.Pool // of *waiter, which have left

	mu      sync.Mutex
	byToken map[string]*waiter
	lines   map[string]*line
	unused  []*line // to be used again; unusedMost at most
}

type line struct {
	first, last *waiter
	length      int
	locals      int       // of them are local, see cohort.go
	plain       *waiter   // the first of the cohort
	asked       time.Time // when the last question was put that was answered
	heardAt     time.Time // when it was answered
	open        int       // questions under way
	clock       serverClock
	seen        sighting // who holds the lock, by the last answer that did not grant it
	cover       *Lease   // whose release passes the lock on, see cohort.go
}

// A waiter is one call of Acquire in its line.
type waiter struct {
	ref     store.Ref
	came    time.Time
	granted chan grant    // one: a token is granted once until it asks again
	wake    chan struct{} // one: look at ask, and whether you are first
	ask     atomic.Bool   // put a question to Redis now

	line         *line
	before, next *waiter // in the line
	local        bool    // Redis does not know of it, see cohort.go
	known        bool    // Redis does, and has said so to a question of its own
	told         bool    // a release has told Redis of it
	passed       bool    // by a release whose answer is not there
	awaits       bool    // that answer, which may yet come
}

func newWaiters(perKey, total int, cohorts bool) *waiters {
	return &waiters{
		cohorts:   cohorts,
		maxPerKey: perKey,
		maxTotal:  total,
		byToken:   make(map[string]*waiter),
		lines:     make(map[string]*line),
	}
}

// join puts a new waiter at the end of its key's line, or returns nil when
// there are too many. local says that it need not ask Redis, see cohort.go; left
// is then what is left of the holder's TTL, as far as that is known.
func (ws *waiters) join(ref store.Ref) (w *waiter, local bool, left time.Duration) {
	came := time.Now()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ln := ws.lines[ref.Key]
	if len(ws.byToken) >= ws.maxTotal || ln != nil && ln.length >= ws.maxPerKey {
		return nil, false, 0
	}
	if ln == nil {
		ln = ws.line(ref.Key, came)
	}
	w, ok := ws.spare.Get().(*waiter)
	if !ok {
		w = &waiter{granted: make(chan grant, 1), wake: make(chan struct{}, 1)}
	}
	w.ref, w.came, w.line, w.before = ref, came, ln, ln.last
	if ws.cohorts && w.plain() {
		if ln.cover != nil || ln.plain != nil {
			w.local = true
			ln.locals++
			left = ln.cover.remains()
		}
		if ln.plain == nil {
			ln.plain = w
		}
	}
	if ln.last == nil {
		ln.first = w
	} else {
		ln.last.next = w
	}
	ln.last = w
	ln.length++
	ws.byToken[ref.Token] = w
	return w, w.local, left
}

// line makes a line for key. The caller holds mu.
func (ws *waiters) line(key string, came time.Time) *line {
	var ln *line
	if n := len(ws.unused); n > 0 {
		ln, ws.unused = ws.unused[n-1], ws.unused[:n-1]
	} else {
		ln = new(line)
	}
	ln.asked = came
	ws.lines[key] = ln
	return ln
}

// unusedMost bounds the lines that are kept to be used again.
const unusedMost = 64

// drop forgets key's line, which has neither waiters nor a cover. The caller holds mu.
func (ws *waiters) drop(key string, ln *line) {
	delete(ws.lines, key)
	if len(ws.unused) < unusedMost {
		*ln = line{}
		ws.unused = append(ws.unused, ln)
	}
}

// leave takes w out of its line, and out of use. The next one becomes first and
// is woken. lease is what w has got, or nil. told is whether a release may have
// told Redis of w, and sure, whether that is done.
func (ws *waiters) leave(w *waiter, lease *Lease) (told, sure bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.byToken, w.ref.Token)
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
	ln.length--
	ln.know(w)
	if ln.plain == w {
		for ln.plain = w.next; ln.plain != nil && !ln.plain.plain(); {
			ln.plain = ln.plain.next
		}
	}
	if lease != nil && w.plain() && ws.cohorts {
		ln.cover = lease
	}
	if ln.length > 0 && w.before == nil {
		ln.first.nudge(false)
	}
	ws.settle(w.ref.Key, ln)
	told, sure = w.told, !w.passed
	w.retire()
	ws.spare.Put(w)
	return told, sure
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
	w.ref, w.line, w.before, w.next = store.Ref{}, nil, nil, nil
	w.local, w.known, w.told, w.passed, w.awaits = false, false, false, false, false
}

// first reports whether w polls for its line.
func (ws *waiters) first(w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.before == nil
}

// grant delivers g, which a release somewhere pushed, to its waiter. It reports
// false when nobody waits for it.
func (ws *waiters) grant(g store.Grant) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w, ok := ws.byToken[g.Token]
	if !ok {
		return false
	}
	since, ok := w.line.since(g.Server)
	w.deliver(grant{fence: g.Fence, since: since, ttl: g.TTL, pushed: true, vague: !ok})
	return true
}

func (w *waiter) deliver(g grant) {
	select {
	case w.granted <- g:
	default: // an older grant lies there unread; it is as good
	}
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
	if ln := ws.lines[key]; ln != nil && ln.first != nil {
		ln.first.nudge(true)
	}
}

// askAllAgain has all waiters of w's line of whom Redis should know, but w, put
// their question again.
func (ws *waiters) askAllAgain(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for other := w.line.first; other != nil; other = other.next {
		if other != w && !other.local {
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
		w := ln.first
		for w != nil && w.local {
			w = w.next
		}
		if w != nil {
			w.nudge(true)
		}
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
