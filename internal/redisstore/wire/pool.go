package wire

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// This file is the pool of connections, and the way of a call through it: Do, put, attend, and whom
// unlock wakes. The package comment has the whole picture.

const (
	// overdueAfter is how long the oldest call in flight waits for a reply until new
	// calls take another connection. A write that takes longer counts as stuck, see tick.go.
	overdueAfter = 10 * time.Millisecond

	// dialAgain is how long a dial may take until one more is begun: it may hang where
	// the next one does not. As long passes until another connection that hangs is
	// replaced. dialsMost are under way at most.
	dialAgain = 250 * time.Millisecond
	dialsMost = 32

	// dialPause is how long a pool that has connections which are trusted makes no further one
	// after a failed dial.
	dialPause = time.Second

	// hangsLeast is how long replies are missing at least before a connection counts as one
	// that hangs: a new one takes its place, and those that rest are no longer trusted. A
	// dial takes several round trips, so far from the server it is twice the time of the
	// last one, if that is longer.
	hangsLeast = 100 * time.Millisecond

	// closeTimeout is how long Close waits for connections that are being closed: those
	// of a user's Dialer may take their time.
	closeTimeout = time.Second

	// From crowdLeast calls in flight on, and up to crowdMost, new ones go over the first connection, so that many go along
	// with each write and each read: 64 callers make 1.3 times the turns of as many over eight connections, for three quarters of
	// the processor time, also where one segment in a thousand or in a hundred is lost (docs/decisions/wire.md). With
	// fewer, each is faster by itself; with more, each connection has enough for a write.
	crowdLeast = 4
	crowdMost  = 160

	// triesMost is how often a call is put on a connection that then breaks before
	// anything of the call is written.
	triesMost = 3
)

// Options say how a pool reaches its server.
type Options struct {
	// Dial returns a connection that is ready for commands. It returns soon after ctx
	// has ended. A connection that does not heed read deadlines is found out, at the
	// price of that connection: from then on goroutines of the pool's own read.
	Dial func(ctx context.Context) (net.Conn, error)

	Size    int           // the most connections
	Silence time.Duration // how long a reply may be missing until its connection is given up
}

// A Pool has the connections to one server. It is safe for concurrent use. Whenever mu is free:
//
//   - A call that is open and has no outcome is in one place: in waiting, in patient, or in
//     flight on its conn. What has ended may still stand there.
//   - While a call without an outcome is in waiting, a dial is under way, whose end sees to it.
//   - A connection that is not broken is in conns, at one place, or in retired.
//   - Whoever was to be woken or told has been: the outbox is empty.
//   - The pool is drained once it is closed and no call is open.
type Pool struct {
	options Options
	ctx     context.Context // the context of dials, which ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // the goroutines of the pool: dials, readers, writers and the tick
	closing sync.WaitGroup // the goroutines that close a connection

	mu       sync.Mutex
	conns    []*conn       // by their places; nil: the place is free
	retired  []*conn       // connections that take no more calls, and have some in flight, see Retire
	waiting  queue         // calls that wait for a connection. It has some that ended meanwhile, too, as heldBack: sift takes these out
	heldBack               // calls that are not sent yet (behind.go)
	open     int           // calls that have no outcome, or whose Late has not returned
	closed   bool          // Close was called
	drained  chan struct{} // closed when the pool is, and no call is open

	generation       int       // grows with each Retire; a connection that began to be dialled in an earlier one is retired
	growth                     // dials, see grow.go
	doubted          time.Time // connections that had no reply since then are not trusted, see doubt
	ignoresDeadlines bool      // a connection did not heed read deadlines: goroutines of the pool read over those made since, no caller does

	ticker  *time.Timer
	ticking bool // ticker is set to tickEvery, or the pool is closed

	outbox outbox
}

// An outbox has what is to be done once mu is free: see Pool.unlock. The calls to be woken are
// linked by Call.toWake: each may be in flight, and so in a queue, at the same time.
type outbox struct {
	wake, wakeLast *Call   // calls whose owners are to be woken
	toTell         []*Call // calls whose Late is to be called
}

// New returns a pool. It opens no connection before the first call.
func New(o Options) *Pool {
	p := &Pool{options: o, conns: make([]*conn, o.Size), drained: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close waits for the calls under way, each of which has a deadline, and closes the
// connections. Those who come later get ErrClosed. A connection whose Close does not
// return is not waited for.
func (p *Pool) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.drain()
	}
	p.unlock()
	<-p.drained
	p.cancel()
	p.mu.Lock()
	for _, k := range p.all() {
		k.fail(ErrClosed)
	}
	p.stopTicking()
	p.unlock()
	p.running.Wait()
	closed := make(chan struct{})
	go func() { p.closing.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}

// discard closes a connection that nobody uses any more. Whoever is still reading from
// it, or writing to it, is interrupted first: a connection of the user's Dialer may
// take its time to close.
func (p *Pool) discard(c net.Conn) {
	p.closing.Go(func() {
		_ = c.SetDeadline(time.Unix(1, 0))
		_ = c.Close()
	})
}

// Connections returns how many connections are open.
func (p *Pool) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all())
}

// Dials returns how many connections are being dialled.
func (p *Pool) Dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.dials)
}

// unlock releases mu, and then wakes those who were to be woken, and calls Late.
func (p *Pool) unlock() {
	out := p.outbox
	p.outbox = outbox{}
	p.mu.Unlock()
	for c := out.wake; c != nil; {
		next := c.toWake
		c.toWake = nil
		c.woken <- struct{}{}
		c = next // the call before may be in use again
	}
	for _, c := range out.toTell {
		if c.Late != nil {
			c.Late(c.Reply, c.err)
		}
	}
	if len(out.toTell) > 0 {
		p.mu.Lock()
		p.countOut(len(out.toTell))
		p.mu.Unlock()
	}
}

// Do carries out a call. It returns when c has its replies, when ctx ends, or when c's
// deadline passes. How soon it then returns depends on what its caller does meanwhile (a tick
// is 10 ms):
//
//	it only waits         at once when ctx ends, within a tick of its deadline
//	it reads for others   within a tick of either
//	it writes             when the server takes what it has begun to write, or, where that
//	                      stalls, when the connection is given up, within 50 ms
//
// The error is an *Error.
//
// reusable says that the pool has no more to do with c. Otherwise c must not be used for
// another call. Its Reply may be read unless the error is Pending: then replies may still be
// appended to it.
func (p *Pool) Do(ctx context.Context, c *Call) (reusable bool, err error) {
	done := doneChan(ctx.Done())
	closed := done.isClosed()
	if ctx.Err() != nil {
		c.Reply = c.Reply[:0]
		return true, &Error{Err: context.Cause(ctx)}
	}
	if closed { // but has no Err, which breaks the contract of a context: it counts as one that does not end
		done = nil
	}
	if c.woken == nil {
		c.woken = make(chan struct{}, 1)
	}
	c.done, c.lazy = done, false
	for try := 1; ; try++ {
		p.mu.Lock()
		if p.closed {
			p.unlock()
			return true, &Error{Err: ErrClosed}
		}
		if c.Behind == nil {
			p.put(c, busy)
		} else if !p.putBehind(c) {
			p.unlock()
			return true, &Error{Err: ErrNotBehind}
		}
		gone := p.attend(c)
		at := c.conn
		reusable, err = !gone && (c.missing == 0 || at == nil || at.broken != nil), c.err
		p.unlock()
		switch { // without the mutex: the context may panic
		case gone:
			return false, &Error{Err: cmp.Or(context.Cause(ctx), context.Canceled), Sent: at != nil, Pending: at != nil}
		case err != nil && ctx.Err() != nil: // it has gone: that says more than what became of the connection
			return reusable, &Error{Err: context.Cause(ctx), Sent: Sent(err)}
		}
		if err == nil || !reusable || at == nil || try == triesMost || ctx.Err() != nil || Sent(err) {
			return reusable, err
		}
		// Its connection broke before anything of it was written.
	}
}

// Sent reports whether a call that ended with err may have been carried out.
func Sent(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Sent
}

// put puts c, whose owner does what s says, on a connection, or among those that wait for one. The caller holds mu.
func (p *Pool) put(c *Call, s state) {
	now := time.Now()
	p.begin(c, s)
	switch k := p.choose(c, now); {
	case p.holdsBack(c, k, now):
		p.holdBack(c, now)
	case k != nil:
		k.add(c, now)
	default:
		p.waiting.add(c)
	}
}

// begin counts c, which is put somewhere behind that. The caller holds mu.
func (p *Pool) begin(c *Call, s state) {
	c.state, c.err, c.conn, c.missing, c.awaited, c.Reply = s, nil, nil, c.Replies, false, c.Reply[:0]
	p.open++
	p.keepTicking()
}

// attend has c's owner see to it until it has its outcome. gone says that the owner has left before, since its context has
// ended. The caller holds mu, and has it again afterwards.
func (p *Pool) attend(c *Call) (gone bool) {
	for c.state != ended {
		switch k := c.conn; {
		case c.done.isClosed():
			p.leave(c)
			return true
		case k != nil && k.writing.free() && len(k.buffer) > 0:
			k.write(c)
		case k != nil && k.reading.free():
			k.read(c)
		default:
			p.park(c)
		}
	}
	return false
}

// park waits until c's owner is woken, or its context ends. The caller holds mu, and
// has it again afterwards.
func (p *Pool) park(c *Call) {
	c.state = parked
	p.unlock()
	select {
	case <-c.woken:
		p.mu.Lock()
	case <-c.done:
		p.mu.Lock()
		if c.state == parked {
			c.state = busy
			return
		}
		p.mu.Unlock()
		<-c.woken // somebody is about to wake it
		p.mu.Lock()
	}
}

// rouse has the owner of a parked call look again. The caller holds mu.
func (p *Pool) rouse(c *Call) {
	c.state = busy
	out := &p.outbox
	if out.wake == nil {
		out.wake = c
	} else {
		out.wakeLast.toWake = c
	}
	out.wakeLast = c
}

// finish gives c its outcome. What has ended stays as it is. The caller holds mu.
func (p *Pool) finish(c *Call, err error) {
	was := c.state
	if was == ended {
		return
	}
	if was == parked {
		p.rouse(c)
	}
	c.state, c.err = ended, err
	if was == left {
		p.outbox.toTell = append(p.outbox.toTell, c) // it is open until its Late has returned
	} else {
		p.countOut(1)
	}
}

// countOut notes that n calls are open no longer. The caller holds mu.
func (p *Pool) countOut(n int) {
	p.open -= n
	p.drain()
}

// leave notes that c's owner goes. The caller holds mu.
func (p *Pool) leave(c *Call) {
	if c.conn == nil { // it was never sent
		p.finish(c, nil)
		return
	}
	c.state = left
	k := c.conn
	k.handOverReading()                        // it may have been its turn to read
	if k.writing.free() && len(k.buffer) > 0 { // or to write
		k.writeAlone()
	}
}

// drain tells Close that no call is open. The caller holds mu.
func (p *Pool) drain() {
	if p.closed && p.open == 0 {
		select {
		case <-p.drained:
		default:
			close(p.drained)
		}
	}
}

// choose returns the connection that c takes, or nil where it is to wait for the one
// that is being dialled. The caller holds mu.
func (p *Pool) choose(c *Call, now time.Time) *conn {
	k := p.shared(now)
	if k == nil {
		if k = p.best(now); k != nil && k.idle() && !k.shunned(now) {
			return k
		}
		p.grow(k, now)
	}
	if c.Urgent && k != nil {
		k = p.lightest(k, now)
	}
	if k != nil && k.shunned(now) && len(p.dials) > 0 {
		return nil
	}
	return k
}

// best returns the first connection that is idle, or the first on which no reply is
// overdue and that is not doubtful. If there is none it is the one that had a reply last.
// The caller holds mu.
func (p *Pool) best(now time.Time) (best *conn) {
	for _, k := range p.conns {
		switch {
		case k == nil:
		case k.idle() && !k.shunned(now):
			return k
		case best == nil, best.shunned(now) && (!k.shunned(now) || k.heard.After(best.heard)):
			best = k
		}
	}
	return best
}

// shared returns the connection on which calls come together where there are some, but not a great many: the first one, or nil while
// that is shunned or still to be dialled. The caller holds mu.
func (p *Pool) shared(now time.Time) *conn {
	first := p.conns[0]
	if first == nil || first.shunned(now) {
		return nil
	}
	n := 0
	for _, k := range p.conns {
		if k != nil {
			n += k.awaited()
		}
	}
	if n < crowdLeast || n > crowdMost {
		return nil
	}
	return first
}

// lightest returns the connection with the fewest calls in flight among those on which
// no reply is overdue, or k if there is none. The caller holds mu.
func (p *Pool) lightest(k *conn, now time.Time) *conn {
	for _, other := range p.conns {
		if other != nil && other.awaited() < k.awaited() && !other.shunned(now) {
			k = other
		}
	}
	return k
}

// hangsAfter is how long replies are missing until their connection counts as one that
// hangs: before it is given up, also where dials take long. The caller holds mu.
func (p *Pool) hangsAfter() time.Duration {
	return max(hangsLeast, min(2*p.dialTook, p.options.Silence/2))
}

// Open returns how many calls have no outcome, including those whose callers have left
// until Late has returned.
func (p *Pool) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}
