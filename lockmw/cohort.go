package lockmw

import (
	"context"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A cohort is the waiters of one process that want a mutex for themselves. Only
// the first of them need stand in the queue in Redis, and not even that one
// while another of the process holds the lock: its release tells Redis of the
// first in the same step, and since when it waits. So each process's first is in
// the queue, at its true place, whenever the lock changes hands, and the one
// that came first of all is among those. A turn within a process then
// costs one question instead of two.
//
// The idea of a local line below a global lock is that of cohort locks (Dice,
// Marathe, Shavit: Lock Cohorting, PPoPP 2012); those let a cohort keep the
// lock for a while, which is not fair, and is not done here.
//
// A waiter is local until it asks Redis, or Redis is told of it. What holds at all
// times: if one of a line is local, either the line has a cover, a lease whose
// release passes the lock on, or the first of the cohort is not local. settle
// restores it.

// plain says that w is of the cohort.
func (w *waiter) plain() bool { return w.ref.Kind == (store.Kind{}) }

// settle has the first of the cohort ask for itself where nobody will pass the
// lock on to it, and forgets a line without waiters and cover. The caller holds mu.
func (ws *waiters) settle(key string, ln *line) {
	switch {
	case ln.cover != nil:
	case ln.length == 0:
		ws.drop(key, ln)
	case ln.plain != nil && ln.plain.local:
		ln.know(ln.plain)
		ln.plain.nudge(true)
	}
}

// know notes that Redis may know of w from now on.
func (ln *line) know(w *waiter) {
	if w.local {
		w.local = false
		ln.locals--
	}
}

// place is the one that w belongs to.
func (w *waiter) place() store.Place {
	return store.Place{Waited: time.Since(w.came), Behind: w.line.locals}
}

// locals is how many wait for key of whom Redis does not know.
func (ws *waiters) locals(key string) int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ln := ws.lines[key]; ln != nil {
		return ln.locals
	}
	return 0
}

// remains is about what is left in the store of a lease's TTL, while it is
// renewed; 0 if l is nil.
func (l *Lease) remains() time.Duration {
	if l == nil {
		return 0
	}
	ttl := l.ref.TTL
	return max(ttl-time.Since(l.start), ttl-ttl/3)
}

// uncover notes that lease's release will not pass its lock on.
func (ws *waiters) uncover(lease *Lease) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	key := lease.ref.Key
	if ln := ws.lines[key]; ln != nil && ln.cover == lease {
		ln.cover = nil
		ws.settle(key, ln)
	}
}

// A standing is how a waiter stands whose time is up.
type standing uint8

const (
	exposed standing = iota // nobody of its process passes the lock on
	covered                 // one of its process has the lock
	offered                 // a release passes the lock on to it, and its answer is not there
)

// standing returns how w stands.
func (ws *waiters) standing(w *waiter) standing {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case w.awaits:
		return offered
	case w.plain() && w.line.cover != nil:
		return covered
	}
	return exposed
}

// pass returns the waiter to whom the release of lease, which the caller is about
// to put to Redis, passes the lock on. It is not ok if there is none, or Redis is
// sure to know of it. One that asks just now may be told of twice, at one place.
func (ws *waiters) pass(lease *Lease) (next store.Ref, place store.Place, ok bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	key := lease.ref.Key
	ln := ws.lines[key]
	if ln == nil || ln.cover != lease {
		return store.Ref{}, store.Place{}, false
	}
	ln.cover, ln.seen = nil, sighting{}
	w := ln.plain
	if w == nil || w.known {
		ws.settle(key, ln)
		return store.Ref{}, store.Place{}, false
	}
	ln.know(w)
	w.told, w.passed, w.awaits = true, true, true
	return w.ref, w.place(), true
}

// passedOn tells the waiter of next what came of a release that passed the lock
// on, and was sent at sent. It reports whether next waits no more.
func (ws *waiters) passedOn(next store.Ref, sent instant, did store.Released, a store.Answer, err error) (gone bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w, ok := ws.byToken[next.Token]
	if !ok {
		return true
	}
	w.awaits = false
	if err != nil {
		w.nudge(true) // whatever came of it
		return false
	}
	w.passed = false
	// The line's last question stays the last: nothing was said for those of it
	// who stand in the queue.
	w.line.hears(serverClock{sent, a.Server}, time.Now())
	switch {
	case a.Granted:
		w.deliver(grant{fence: a.Fence, since: sent, ttl: next.TTL, passed: true})
	case did == store.NotHeld:
		w.nudge(true)
	default:
		w.known = true
		w.nudge(false)
	}
	return false
}

// releaseTo gives the lease's lock back and passes it on to next.
func (l *Lease) releaseTo(try context.Context, next store.Ref, place store.Place) (store.Released, error) {
	sent := now()
	did, answer, err := l.locker.relay.ReleaseTo(try, l.ref, next, place)
	gone := l.locker.waiters.passedOn(next, sent, did, answer, err)
	if gone && (err != nil || answer.Granted) && !l.locker.holds(next.Token) {
		l.locker.janitor.Add(next, err == nil)
	}
	return did, err
}
