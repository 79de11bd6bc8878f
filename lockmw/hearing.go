package lockmw

import (
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A serverClock is what the server's clock said to a question sent at sent,
// so it said so at sent or later.
type serverClock struct {
	sent   instant
	server int64 // µs
}

// asks notes that w puts a question, and returns its place.
func (ws *waiters) asks(w *waiter) store.Place {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.line.know(w)
	w.line.open++
	return w.place()
}

// heard notes an answer for w's line: to a question put at asked, answered at
// answered, and what it said of the server's clock and of who holds the lock. queued says that w stands in
// the queue.
func (ws *waiters) heard(w *waiter, asked, answered time.Time, clock serverClock, seen sighting, queued bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ln := w.line
	ln.open--
	ln.asked = asked
	ln.hears(clock, answered)
	ln.seen = seen
	w.known = queued
}

// hears notes an answer that came at at.
func (ln *line) hears(clock serverClock, at time.Time) {
	ln.heardAt, ln.clock = at, clock
}

// unheard notes that a question of w ended without an answer.
func (ws *waiters) unheard(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.line.open--
}

// unanswered reports whether nothing is known of w's lock yet: a question about
// it is under way, and none was answered since w came.
func (ws *waiters) unanswered(w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ln := w.line
	return ln.open > 0 && ln.cover == nil && ln.heardAt.Before(w.came)
}

// asked returns when the last question of w's line was put that was answered.
func (ws *waiters) asked(w *waiter) time.Time {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.line.asked
}

// since returns a moment that is not later than the server's time at, by what
// the server's clock said to the line. ok is false if it said nothing yet, or
// something that another server must have said, as after a fail-over.
func (ln *line) since(at int64) (moment instant, ok bool) {
	if ln.clock.server == 0 {
		return instant{}, false
	}
	passed := time.Duration(at-ln.clock.server) * time.Microsecond
	passed -= passed.Abs() / 100 // the clocks' rates may differ by up to 1 %
	moment = ln.clock.sent.add(passed)
	return moment, moment.mono <= now().mono
}
