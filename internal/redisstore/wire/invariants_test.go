package wire

import (
	"errors"
	"fmt"
)

// violated returns what does not hold of what the comments of Pool and conn say, or nil. It
// takes mu.
func (p *Pool) violated() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	want := func(holds bool, format string, args ...any) {
		if !holds {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	unended := 0 // calls without an outcome, by the places where they stand
	walk := func(q queue, where string, k *conn) {
		n := 0
		for c := q.first; c != nil; c = c.next {
			n++
			if c.state != ended {
				unended++
				want(c.conn == k, "a call in %s has the connection %p, want %p", where, c.conn, k)
			}
		}
		want(n == q.n, "%s has %d calls and counts %d", where, n, q.n)
	}
	walk(p.waiting, "waiting", nil)
	for c := p.waiting.first; c != nil; c = c.next {
		want(c.state == ended || len(p.dials) > 0, "a call waits, and nothing is dialled")
	}
	walk(p.patient, "patient", nil)
	for _, k := range p.all() {
		walk(k.inFlight, "in flight", k)
		want(k.broken == nil, "a broken connection is in the pool: %v", k.broken)
		want((len(k.buffer) == 0) == (k.unsent == nil), "%d bytes in the buffer, unsent %p", len(k.buffer), k.unsent)
		found, lazy := k.unsent == nil, 0
		for c := k.inFlight.first; c != nil; c = c.next {
			found = found || c == k.unsent
			want(c.missing > 0, "a call in flight has all its replies")
			if c.lazy {
				lazy++
			}
		}
		want(lazy == k.lazy, "%d calls in flight are lazy, want %d", lazy, k.lazy)
		want(found, "unsent is not in flight")
	}
	want(unended <= p.open, "%d calls without an outcome, and %d open", unended, p.open)
	want(p.outbox.wake == nil && p.outbox.wakeLast == nil && len(p.outbox.toTell) == 0, "somebody was not woken, or not told")
	select {
	case <-p.drained:
		want(p.closed && p.open == 0, "drained: closed %v, %d open", p.closed, p.open)
	default:
		want(!p.closed || p.open > 0, "closed, nothing is open, and not drained")
	}
	return errors.Join(errs...)
}
