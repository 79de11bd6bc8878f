package wire

import (
	"context"
	"time"
)

// A call may be posted: its owner leaves as soon as the commands are on their way, and what comes of them is for the call's
// Late. Where nobody waits for that either the call is lazy: its replies are read with those of the next caller that takes
// the connection, which costs nothing, or by a goroutine once they have lain there for a tick. A connection that has
// nothing but lazy calls in flight counts as one that is idle. While nobody reads from it, nothing is overdue on it,
// since nobody can tell.
//
// Another call may go behind one that was posted (Call.Behind): over its connection, where the server carries out one after the other, and over
// no other one. Both are over where that connection hangs, as with Await. Where the first one is not in flight any more, or not yet, or the other would not be put
// on that connection because replies are overdue there, or the server is behind, nothing of it is sent: that is ErrNotBehind.

// Post sends a call, and returns when its commands are handed to the kernel, lie in the buffer of a connection to which
// somebody writes at the moment, or wait for a connection that is being dialled. It does not wait for a server that takes
// nothing: where replies are overdue a goroutine of the connection's own writes. Only where nobody knows yet that it takes nothing,
// and the socket is full, Post is held up, until the connection is given up: for Options.Silence and some ticks at most.
//
// soon says that somebody waits for what Late is told; otherwise that may take a tick longer. Late is called once in any
// case, maybe before Post returns, and c is the pool's until then, and for good where Late has an error.
func (p *Pool) Post(c *Call, soon bool) {
	c.done, c.lazy = nil, !soon
	p.mu.Lock()
	if p.closed {
		p.unlock()
		c.Late(nil, &Error{Err: ErrClosed})
		return
	}
	p.put(c, left)
	if k := c.conn; k != nil && c.state != ended {
		switch {
		case !k.writing.free() || len(k.buffer) == 0:
		case k.overdue(time.Now()):
			k.writeAlone()
		default:
			k.write(nil) // c is another's as soon as its replies have come
		}
		k.handOverReading()
	}
	p.unlock()
}

// Await has the caller take part in what Post has begun, so that nothing is read later than with Do: it returns when c has
// its replies or is over, when ctx ends, or at c's deadline. It returns at once where somebody else
// awaits c, and where that waits for a connection. Late is called as ever, by whoever finds the outcome.
//
// From then on c is over, as at its deadline, where its connection hangs: somebody waits, and whoever has posted c may
// send it again, over another connection.
func (p *Pool) Await(ctx context.Context, c *Call) {
	done := doneChan(ctx.Done()) // before Await takes part in c: if it panicked later, nobody would call c's Late
	p.mu.Lock()
	if c.state != left {
		p.unlock()
		return
	}
	c.awaited = true
	if c.conn == nil {
		c.lazy = false // somebody reads as soon as there is one
		p.unlock()
		return
	}
	c.state, c.done = busy, done
	if k := c.conn; c.lazy {
		if k.untold() {
			k.heard = time.Now() // from now on somebody reads, and a reply may be overdue
		}
		c.lazy = false
		k.lazy--
	}
	if c.woken == nil {
		c.woken = make(chan struct{}, 1)
	}
	gone := p.attend(c)
	err := c.err
	p.unlock()
	if !gone {
		c.Late(c.Reply, err)
	}
}

// putBehind puts c, which has a busy owner, on the connection on which c.Behind is in flight, and reports whether it has. The caller holds mu.
func (p *Pool) putBehind(c *Call) bool {
	now := time.Now()
	first := c.Behind
	k := first.conn
	if first.state == ended || k == nil || k.retired() || k.shunned(now) || p.holdsBack(c, k, now) {
		return false
	}
	first.awaited = true
	p.begin(c, busy)
	c.awaited = true
	k.add(c, now)
	return true
}
