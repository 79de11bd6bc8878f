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
// On their way means that the kernel has them: what lies in a buffer of the process is lost when the process ends. So whoever
// posts writes, or waits for the one who does, but neither for long. It writes itself only where the socket has room for
// sure, since a write cannot be left in the middle. Elsewhere a goroutine of the connection's own writes.

// surelyTaken is how many bytes of commands a socket takes though the server replies to none of them: with the sizes that
// systems give by themselves the send buffer alone has room for more.
const surelyTaken = 16 << 10

// Post sends a call, and returns when its commands are handed to the kernel, or wait for a connection that is being
// dialled. It does not wait for a server that takes nothing: a write may take overdueAfter, and where one has taken as
// long already, Post leaves it to whoever writes that. soon says that somebody waits for what
// Late is told; otherwise that may take a tick longer. Late is called once in any case, maybe before Post returns, and c
// is the pool's until then, and for good where Late has an error.
func (p *Pool) Post(c *Call, soon bool) {
	c.ctx, c.lazy = context.Background(), !soon
	p.mu.Lock()
	if p.closed {
		p.unlock()
		c.Late(nil, &Error{Err: ErrClosed})
		return
	}
	p.put(c, left)
	var written <-chan struct{}
	if k := c.conn; k != nil && c.state != ended {
		written = k.post(time.Now()) // c is another's as soon as its replies have come
		k.handOverReading()
	}
	p.unlock()
	if written == nil {
		return
	}
	stuck := time.NewTimer(overdueAfter)
	defer stuck.Stop()
	select {
	case <-written:
	case <-stuck.C:
	}
}

// post writes the buffer, or sees to it that somebody does. It returns what is closed when that has come to an end; nil: it
// has, or is not to be waited for. The caller holds the pool's mutex, and has it again afterwards.
func (k *conn) post(now time.Time) (written <-chan struct{}) {
	switch {
	case k.writing.free() && k.unanswered <= surelyTaken && !k.overdue(now):
		k.write(nil)
		return nil
	case k.writing.free():
		k.writeAlone()
	case now.Sub(k.since) >= overdueAfter:
		return nil
	}
	if k.written == nil {
		k.written = make(chan struct{})
	}
	return k.written
}

// Await has the caller take part in what Post has begun, so that nothing is read later than with Do: it returns when c has
// its replies or is over, when ctx ends, or at c's deadline. It returns at once where somebody else
// awaits c, and where that waits for a connection. Late is called as ever, by whoever finds the outcome.
func (p *Pool) Await(ctx context.Context, c *Call) {
	p.mu.Lock()
	switch {
	case c.state != left:
		p.unlock()
		return
	case c.conn == nil:
		c.lazy = false // somebody reads as soon as there is one
		p.unlock()
		return
	}
	c.state, c.ctx = busy, ctx
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
