package wire

import "time"

// A server that is asked for more than it can do answers later and later, and a caller that
// has left by then has cost it a command all the same. So while the server is behind, a
// patient call is not sent: it waits in the pool, where a caller that leaves costs nothing,
// and is sent as replies come. Other calls are sent at once, so what gives something back
// goes before what asks for more.

const (
	// behindAfter is how much longer than usual (conn.usual) the oldest call in flight waits when
	// the server counts as behind. Five hundred callers that do not leave have their replies within
	// 3 ms on two cores.
	behindAfter = 5 * time.Millisecond

	// behindLeast is how many calls are in flight at least then. Where a reply takes its
	// time with fewer, it is not for them.
	behindLeast = 64

	// heldBackMost is how long calls that are not patient may keep a patient one from being
	// sent: then one goes along for each heldBackShare replies. Where so much gives back and
	// renews that the server stays behind, it would never be sent otherwise.
	heldBackMost  = 100 * time.Millisecond
	heldBackShare = 16

	// fastestFades is what each tick adds to the time that the fastest reply took, 3 ms in
	// a minute: the way to the server may have become longer.
	fastestFades = time.Microsecond / 2
)

// heldBack are the calls that wait until the server is no longer behind.
type heldBack struct {
	patient queue // has some that ended meanwhile, too: sift takes these out
	owed    int   // replies that came while the server was behind, counted towards the next call of patient, see heldBackMost
}

// behind reports whether patient calls wait until there are more replies on k. While its
// replies are overdue they do not: nobody knows whether there will be any. The caller holds
// the pool's mutex.
func (k *conn) behind(now time.Time) bool {
	if k.awaited() < behindLeast || k.fastest == 0 || k.shunned(now) {
		return false
	}
	first := k.inFlight.first
	for first.lazy { // its reply may lie there unread
		first = first.next
	}
	return now.Sub(first.added) > k.usual()+behindAfter
}

// replied notes how long a call was in flight. The caller holds the pool's mutex.
func (k *conn) replied(after time.Duration) {
	if k.fastest == 0 || after < k.fastest {
		k.fastest = max(after, 1)
	}
}

// holdBack has c wait for replies. The caller holds mu.
func (p *Pool) holdBack(c *Call, now time.Time) {
	c.added = now
	p.patient.add(c)
}

// holdsBack reports whether c waits: k, which it would take, is behind, or others wait for
// that. The caller holds mu.
func (p *Pool) holdsBack(c *Call, k *conn, now time.Time) bool {
	return c.Patient && (p.patient.n > 0 || k != nil && k.behind(now))
}

// admit puts patient calls on k after replies to as many calls have come over it. For each
// reply two go along, so that soon as many are in flight as keep the server busy, and none
// while it is behind, but see heldBackMost. The caller holds the pool's mutex.
func (k *conn) admit(answered int, now time.Time) {
	p := k.pool
	for p.patient.n > 0 && p.patient.first.state == ended {
		p.patient.take()
	}
	if p.patient.n == 0 {
		return
	}
	room := max(2*answered, behindLeast-k.awaited())
	if k.behind(now) {
		if now.Sub(p.patient.first.added) < heldBackMost {
			return
		}
		p.owed += answered
		room, p.owed = p.owed/heldBackShare, p.owed%heldBackShare
	}
	for room > 0 && p.patient.n > 0 {
		if c := p.patient.take(); c.state != ended {
			k.add(c, now)
			room--
		}
	}
	k.rouseWriter()
}

// tickPatient ends the patient calls that were held back for all their time, and forgets
// those whose callers have left. Where no replies come that the others could wait for, they
// are held back no longer. The caller holds mu.
func (p *Pool) tickPatient(now time.Time) {
	p.sift(&p.patient, now, ErrBehind)
	if p.patient.n == 0 {
		return
	}
	k := p.best(now)
	if k != nil && !k.shunned(now) {
		k.admit(0, now)
		return
	}
	for p.patient.n > 0 {
		c := p.patient.take()
		if k = p.choose(c, now); k == nil {
			p.waiting.add(c)
			continue
		}
		k.add(c, now)
		k.rouseWriter()
	}
}

// sift ends the calls in q whose deadline has passed, with err, and takes them out, and
// those that were ended before. The caller holds mu.
func (p *Pool) sift(q *queue, now time.Time, err error) {
	var still queue
	for q.n > 0 {
		c := q.take()
		if c.state != ended && !now.Before(c.Deadline) {
			p.finish(c, &Error{Err: err})
		}
		if c.state != ended {
			still.add(c)
		}
	}
	*q = still
}
