package lockmw

import (
	"errors"
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

// heard notes an answer for w's line: to a question put at asked, and what it
// said of the server's clock. queued says that w stands in the queue.
func (ws *waiters) heard(w *waiter, asked time.Time, clock serverClock, queued bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ln := w.line
	ln.open--
	ln.asked = asked
	ln.hears(clock)
	w.known = queued
}

// hears notes an answer.
func (ln *line) hears(clock serverClock) {
	ln.heardAt, ln.clock, ln.fault = time.Now(), clock, nil
}

// unheard notes that a question of w ended without an answer, and if that says
// something of the store, what it met. It returns what keeps the line from answers.
func (ws *waiters) unheard(w *waiter, fault *store.Error) *store.Error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.line.open--
	if fault != nil {
		w.line.fault = fault
	}
	return w.line.trouble(w)
}

// trouble returns what keeps w's line from answers, or nil. The caller holds mu.
func (ln *line) trouble(w *waiter) *store.Error {
	if ln.fault == nil && ln.open > 0 && ln.cover == nil && ln.heardAt.Before(w.came) {
		return &store.Error{Err: errSilent, Ambiguous: true} // the question of one in front is older than w
	}
	return ln.fault
}

// errSilent: a question of another waiter for the same key has no answer yet.
var errSilent = errors.New("no answer yet")

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
