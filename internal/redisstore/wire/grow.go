package wire

import (
	"net"
	"slices"
	"time"
)

// growth is what a pool knows of its dials.
type growth struct {
	dials       []time.Time   // when those that are under way began
	dialBegan   time.Time     // when the last dial began
	swapDialled time.Time     // when the last dial began that was to take the place of a connection
	dialTook    time.Duration // how long the last dial took that succeeded
	broke       time.Time     // when a connection was last found to have ended, unless it may have ended with the one before
	dialFailed  time.Time     // when a dial failed last that was not made anew
}

// grow begins to dial one more connection, if there may be one: a place is free, or best
// is overdue, so all are, and one of them hangs. After a dial that failed there is a pause, unless
// best is doubtful: then it may have ended with another one, and so may all. The caller holds mu.
func (p *Pool) grow(best *conn, now time.Time) {
	have := p.have()
	full := have == len(p.conns)
	switch {
	case full && (!best.overdue(now) || now.Sub(p.swapDialled) < dialAgain || p.hanging(now, now) == nil):
	case len(p.dials) > 0 && now.Sub(p.dialBegan) < dialAgain, len(p.dials) == dialsMost:
	case have > 0 && now.Sub(p.dialFailed) < dialPause && (best == nil || !best.doubtful()):
	default:
		p.dials = append(p.dials, now)
		p.dialBegan = now
		if full {
			p.swapDialled = now
		}
		generation := p.generation
		p.running.Go(func() { p.dial(generation, now) })
	}
}

// have is how many connections there are. The caller holds mu.
func (p *Pool) have() (n int) {
	for _, k := range p.conns {
		if k != nil {
			n++
		}
	}
	return n
}

// dial makes a connection for those who wait.
func (p *Pool) dial(generation int, began time.Time) {
	netConn, err := p.options.Dial(p.ctx)
	p.mu.Lock()
	defer p.unlock()
	p.dialled(netConn, err, generation, began, time.Now())
}

// dialled takes in what a dial has come to that began at began. Those who wait use the new connection. If there is none, or no place for it,
// they use the best of the others, overdue as it may be. Where there are no others, they fail, but not while an earlier dial is under
// way: what refuses further connections may let that one through. A connection that may have ended is only taken in where neither
// another one is good nor another dial can begin. The caller holds mu.
func (p *Pool) dialled(netConn net.Conn, err error, generation int, began, now time.Time) {
	at := slices.Index(p.dials, began)
	p.dials = slices.Delete(p.dials, at, at+1)
	if err == nil {
		p.dialTook = now.Sub(began)
	}
	best := p.best(now)
	good := best != nil && !best.shunned(now)
	mayHaveEnded := began.Before(p.broke) && p.ctx.Err() == nil
	var k *conn
	switch {
	case mayHaveEnded && !good && p.anew(best, now):
		if err == nil {
			p.discard(netConn)
		}
		return
	case err != nil:
		p.dialFailed = now
	case mayHaveEnded && good:
		p.discard(netConn)
	default:
		if k = p.takeIn(netConn, generation, began, now); k == nil {
			p.discard(netConn)
		}
	}
	if k == nil {
		k = p.best(now)
	}
	if k != nil {
		k.adopt(now)
		k.closeRetired()
		return
	}
	if at > 0 {
		return
	}
	if generation != p.generation && p.waiting.n > 0 { // it may have failed for credentials that were out of date
		p.grow(nil, now)
		return
	}
	for p.waiting.n > 0 {
		p.finish(p.waiting.take(), &Error{Err: err})
	}
}

// anew begins another dial in place of one during which another connection was found to have ended, and reports whether one is under way:
// a server that ends all of its connections ends one that is being set up, too, and a call that is tried once more is not to meet two
// that have ended. The caller holds mu.
func (p *Pool) anew(best *conn, now time.Time) bool {
	p.grow(best, now)
	return len(p.dials) > 0
}

// takeIn takes in a new connection, which began to be dialled at began, in generation. It
// returns nil if there is no place for it. The caller holds mu.
func (p *Pool) takeIn(netConn net.Conn, generation int, began, now time.Time) *conn {
	if p.ctx.Err() != nil {
		return nil
	}
	k := &conn{Conn: netConn, pool: p, generation: generation, heard: now, proven: now}
	switch {
	case k.retired(): // it serves those who wait for it, and nobody else
		p.retired = append(p.retired, k)
	case !p.seat(k, began, now):
		return nil
	}
	if p.ignoresDeadlines {
		k.readAlone()
	}
	return k
}

// seat gives k the first free place, or that of a connection that hangs. The caller
// holds mu.
func (p *Pool) seat(k *conn, began, now time.Time) bool {
	if hangs := p.hanging(began, now); hangs != nil {
		p.retire(hangs) // what is in flight on it may be answered yet
		k.untried = true
	}
	i := slices.Index(p.conns, nil)
	if i >= 0 {
		p.conns[i] = k
	}
	return i >= 0
}

// hanging returns, if all places are taken, the one with the fewest calls in flight of the
// connections that hang: that have been silent since before a dial began that has
// succeeded. So the server answers, and had more than one round trip for it. There is none
// while one hangs that took the place of another and over which nothing was answered: the
// server may take connections and carry out nothing, as while its writes are paused for a
// fail-over. Then one more does no better, and the calls on the others may be answered yet.
// The caller holds mu.
func (p *Pool) hanging(began, now time.Time) (fewest *conn) {
	for _, k := range p.conns {
		switch {
		case k == nil:
			return nil
		case !k.hangs(now):
		case k.untried:
			return nil
		case now.Sub(began) >= k.silent(now):
		case fewest == nil, k.inFlight.n < fewest.inFlight.n:
			fewest = k
		}
	}
	return fewest
}
