package wire

import (
	"net"
	"time"
)

const (
	// tickEvery is how often the calls that have no outcome are looked at: whether one
	// is over its time, or is read for by somebody who wants to leave. A timer for each
	// call would cost a tenth of what a busy process does, and one tick each 4 ms a
	// seventh with four callers at a time: it wakes a thread that then looks for work.
	tickEvery = 10 * time.Millisecond

	// restAfter is how long nothing is asked over a connection until a goroutine of its
	// own reads from it, which sees when the server closes it.
	restAfter = 100 * time.Millisecond

	// warmMost is how many of the first connections stay open while they rest, and are
	// read from then. Those behind them are needed under load only, and are closed after
	// restMost, or when one that rests is found to have ended (see Pool.doubt).
	warmMost = 4
	restMost = 2 * time.Second

	// ignoredAfter is how many ticks a reader that is interrupted may go on reading until
	// its connection is taken for one that does not heed read deadlines.
	ignoredAfter = 25

	// stuckAfter is how many ticks a writer that wants to leave is held up until its
	// connection is given up, with the calls of all others on it. One that is merely slow to
	// run on a busy machine has run by then.
	stuckAfter = 4
)

// keepTicking has tick run. The caller holds mu.
func (p *Pool) keepTicking() {
	if p.ticking {
		return
	}
	p.setTick(tickEvery)
}

// setTick has tick run in d. The caller holds mu.
func (p *Pool) setTick(d time.Duration) {
	p.ticking = d == tickEvery
	if p.ticker != nil && p.ticker.Stop() {
		p.running.Done()
	}
	p.running.Add(1)
	p.ticker = time.AfterFunc(d, p.tick)
}

// stopTicking ends it. The caller holds mu.
func (p *Pool) stopTicking() {
	if p.ticker != nil && p.ticker.Stop() {
		p.running.Done()
	}
	p.ticking = true // nobody starts it any more
}

// tick looks after the calls and the connections.
func (p *Pool) tick() {
	defer p.running.Done()
	p.mu.Lock()
	now := time.Now()
	var interrupted []*conn
	writes := false
	for _, k := range p.all() {
		if k.broken == nil && k.tick(now) {
			interrupted = append(interrupted, k)
		}
		writes = writes || k.broken == nil && !k.writing.free()
	}
	rests := len(p.retired) > 0
	for i, k := range p.conns {
		if k != nil && k.inFlight.n == 0 {
			switch rest := now.Sub(k.heard); {
			case i >= warmMost && rest >= restMost:
				k.fail(net.ErrClosed)
				continue
			case !k.reading.free():
			case i < warmMost && rest >= restAfter:
				k.readAlone()
			default:
				rests = true
			}
			rests = rests || i >= warmMost
		}
	}
	p.tickWaiting(now)
	p.tickPatient(now)
	if p.ctx.Err() == nil {
		switch p.ticking = false; {
		case p.open > 0, writes: // a writer whose own call has its replies may hang in what it writes for others
			p.setTick(tickEvery)
		case rests:
			p.setTick(restAfter)
		}
	}
	p.unlock()
	for _, k := range interrupted {
		_ = k.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// tickWaiting ends the calls that have had no connection within their time. The caller
// holds mu.
func (p *Pool) tickWaiting(now time.Time) {
	p.sift(&p.waiting, now, ErrTimeout)
	if p.waiting.n > 0 {
		p.grow(p.best(now), now)
	}
}

// tick looks after the calls in flight. It reports whether the reader is to be
// interrupted. The caller holds the pool's mutex.
func (k *conn) tick(now time.Time) (interrupt bool) {
	if k.fastest > 0 {
		k.fastest += fastestFades
	}
	if k.idle() && k.lazy > 0 && k.reading.free() && now.Sub(k.inFlight.first.added) >= tickEvery {
		k.heard = now // from now on somebody reads, and a reply may be overdue
		k.readAlone()
	}
	w, r := k.writing.call, k.reading.call
	if k.silent(now) > k.pool.options.Silence {
		k.bad(now, ErrSilent)
		return false
	}
	if stuck := !k.writing.free() && now.Sub(k.since) > overdueAfter; stuck {
		if w != nil && w.leaves(now) {
			if k.writing.leaving++; k.writing.leaving >= stuckAfter {
				k.bad(now, ErrStuck) // its owner wants to go, and nothing else ends a write
				return false
			}
		}
		if k.reading.free() {
			k.readAlone() // the server may not read on before its replies are read
		}
	}
	if k.hangs(now) {
		k.hurry(now)
	}
	if k.inFlight.n > 0 && !now.Before(k.soonest) {
		k.expire(now)
	}
	if r == nil || !r.leaves(now) {
		return false
	}
	if k.reading.leaving++; k.reading.leaving > ignoredAfter {
		k.pool.ignoresDeadlines = true
		k.fail(ErrIgnoresDeadlines)
		return false
	}
	return true
}

// timeOut ends a call whose deadline has passed. The caller holds the pool's mutex.
func (k *conn) timeOut(c *Call, now time.Time) {
	k.pool.finish(c, &Error{Err: ErrTimeout, Sent: true}) // what is in the buffer will be written
	k.doubtOthers(now)
}

// bad gives k up, over which nothing comes or goes. The caller holds the pool's mutex.
func (k *conn) bad(now time.Time, err error) {
	k.doubtOthers(now)
	k.fail(err)
}

// doubtOthers has, if k hangs, those connections not trusted that have had no reply for as
// long as it takes to say so: whatever befell k may have befallen them, also where their
// last replies came a moment after k's. The caller holds the pool's mutex.
func (k *conn) doubtOthers(now time.Time) {
	if k.hangs(now) {
		k.pool.doubt(now.Add(-k.pool.hangsAfter()), net.ErrClosed)
	}
}

// hurry has the time be over of calls in flight that were posted and are awaited, or went behind such ones: k hangs. As with any call whose time is over, those who rest
// are doubted then, and the call is sent again over another connection. One that writes for others goes on. The caller holds the pool's mutex.
func (k *conn) hurry(now time.Time) {
	for c := k.inFlight.first; c != nil; c = c.next {
		if c.awaited && c.state != ended && now.Before(c.Deadline) && c != k.writing.call {
			c.Deadline, k.soonest = now, now
		}
	}
}

// expire ends the calls in flight whose deadline has passed, apart from those of the
// writer and the reader, who see to it themselves. The caller holds the pool's mutex.
func (k *conn) expire(now time.Time) {
	k.soonest = time.Time{}
	for c := k.inFlight.first; c != nil; c = c.next {
		switch {
		case c.state == ended:
		case now.Before(c.Deadline):
			if k.soonest.IsZero() || c.Deadline.Before(k.soonest) {
				k.soonest = c.Deadline
			}
		case c.state == busy:
			k.soonest = now
		default:
			k.timeOut(c, now)
		}
	}
}
