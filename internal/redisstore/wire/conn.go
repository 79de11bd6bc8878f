package wire

import (
	"errors"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
)

// A conn is one connection and what is in flight on it. All but its input is guarded by
// the pool's mutex. Whenever that is free:
//
//   - The calls in flight are in the order of their commands. Each has this conn, and misses a
//     reply at least. Those from unsent on, if there is one, are in the buffer, and of those
//     before it something was written, or is being written.
//   - The buffer is empty exactly if unsent is nil.
//   - What is broken has no calls in flight and is in neither list of the pool. Nothing mends it.
//   - Somebody writes, or will look whether to, while there are bytes in the buffer; and somebody
//     reads, or will look, while calls are in flight that are not lazy: their owners are busy, or were woken, or
//     have left the side to a goroutine of the connection's own. One writes and one reads at a time.
//   - lazy is how many of the calls in flight are. That changes in add, take and Await alone.
type conn struct {
	net.Conn

	pool       *Pool
	generation int   // the pool's generation when the dial began; noGeneration once the connection is retired
	broken     error // why the connection was given up, or nil; then all its calls have their outcome

	buffer   []byte    // commands that nobody has begun to write
	spare    []byte    // memory of the commands that were written last, for the next
	inFlight queue     // calls whose replies are to come, those in the buffer included
	lazy     int       // how many of those in flight nobody waits for, see post.go
	unsent   *Call     // the first of the calls in the buffer, or nil
	soonest  time.Time // a moment not later than the deadlines of all calls in flight

	// Three moments say how well the connection is. heard is when the last reply came, or, if
	// the first call in flight was put on it later, when that was: if it is long ago, a reply
	// is overdue. arrived is when bytes came that did not complete a reply, as of a large one.
	// proven is when a reply came last, or the connection was made: one that was proven before
	// another connection went bad is not trusted.
	heard, arrived, proven time.Time

	fastest time.Duration // the shortest time a call was in flight (behind.go), 0 before the first reply
	untried bool          // the connection took the place of one that hung, and has brought no reply yet

	writing side
	since   time.Time // when the present write began
	reading side

	in input // used by whoever is reading, without the mutex
}

const (
	writesMost = 16 // writes of one caller, until another one writes

	// manyInFlight is how many calls are in flight when a writer first lets others run, so
	// that their commands go along. With fewer it only loses time. To do so always cost 24
	// callers a fifth of their turns (bench_test.go), and never, 64 and 512 callers as many.
	// With 3 to 6, 16 callers made up to a fifth more turns, and 6 to 8 callers a tenth fewer:
	// runtime.Gosched lets the writer go on by another thread, whose caches know nothing of it.
	manyInFlight = 8

	writeMost  = 64 << 10  // bytes in one piece
	bufferMost = 256 << 10 // bytes of memory that are kept for the next commands, or replies
)

// add puts c behind the calls in flight. The caller holds the pool's mutex.
func (k *conn) add(c *Call, now time.Time) {
	c.conn, c.added = k, now
	if k.untold() {
		k.heard = now
	}
	if c.lazy {
		k.lazy++
	}
	if k.soonest.IsZero() || c.Deadline.Before(k.soonest) {
		k.soonest = c.Deadline
	}
	if k.unsent == nil {
		k.unsent = c
	}
	k.buffer = append(k.buffer, c.Commands...)
	k.inFlight.add(c)
}

// take removes and returns the first of the calls in flight. The caller holds the pool's mutex.
func (k *conn) take() *Call {
	c := k.inFlight.take()
	if c.lazy {
		k.lazy--
	}
	return c
}

// adopt puts the calls that wait for a connection on this one. The caller holds the
// pool's mutex.
func (k *conn) adopt(now time.Time) {
	p := k.pool
	for p.waiting.n > 0 {
		if c := p.waiting.take(); c.state != ended {
			k.add(c, now)
		}
	}
	k.rouseWriter()
	k.handOverReading() // calls that were posted have no owner who looks
}

// rouseWriter has somebody write what was put into the buffer for others. The caller holds
// the pool's mutex.
func (k *conn) rouseWriter() {
	c := k.unsent
	switch {
	case c == nil, !k.writing.free():
	case c.state == parked:
		k.pool.rouse(c)
	case c.state == left:
		k.writeAlone()
	}
}

// awaited is how many of the calls in flight somebody waits for. The caller holds the pool's mutex.
func (k *conn) awaited() int { return k.inFlight.n - k.lazy }

// idle reports whether nobody waits for what is in flight. The caller holds the pool's mutex.
func (k *conn) idle() bool { return k.awaited() == 0 }

// untold reports whether nobody waits for what is in flight, nor reads it: whether replies have come cannot be told then, and
// says nothing about the server. The caller holds the pool's mutex.
func (k *conn) untold() bool { return k.idle() && (k.lazy == 0 || k.reading.free()) }

// usual is how long a reply takes at most where nothing is wrong: up to half as long again as the fastest one took, since the way to
// a server that is far away takes now longer, now shorter. The caller holds the pool's mutex.
func (k *conn) usual() time.Duration { return k.fastest + k.fastest/2 }

// overdue reports whether the oldest call in flight waits for longer than usual. Where nobody waits for any of those in flight,
// their way to a server that is far away and back does not count: a call that goes behind them has its reply when that way is
// over, and by another connection, which is dialled first, after several times as long. The caller holds the pool's mutex.
func (k *conn) overdue(now time.Time) bool {
	after := overdueAfter
	if k.idle() {
		after += k.usual()
	}
	return !k.untold() && now.Sub(k.heard) > after
}

// silent is for how long nothing has arrived although replies are missing, and nothing
// was written if somebody writes. The caller holds the pool's mutex.
func (k *conn) silent(now time.Time) time.Duration {
	if k.untold() {
		return 0
	}
	silent := min(now.Sub(k.heard), now.Sub(k.arrived))
	if !k.writing.free() {
		silent = min(silent, now.Sub(k.since))
	}
	return silent
}

// hangs reports whether it is silent for so long that something is wrong. The caller
// holds the pool's mutex.
func (k *conn) hangs(now time.Time) bool { return k.silent(now) >= k.pool.hangsAfter() }

// write writes until the buffer is empty. own is the writer's call, or nil. The caller
// holds the pool's mutex, and has it again afterwards.
func (k *conn) write(own *Call) {
	p := k.pool
	k.writing.take(own)
	k.since = time.Now()
	if k.inFlight.n > manyInFlight { // those that were answered just now may have the next commands
		p.unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
	for writes := 0; len(k.buffer) > 0 && k.broken == nil; writes++ {
		if c := k.unsent; writes >= writesMost && c.state == parked {
			p.rouse(c) // it goes on writing
			break
		}
		out, first := k.buffer, k.unsent
		k.buffer, k.spare, k.unsent = k.spare[:0], nil, nil
		n, err := k.writeAll(out)
		if cap(out) <= bufferMost {
			k.spare = out
		}
		if err != nil {
			if n == 0 && wroteNothing(err) {
				k.unsent = first
			}
			k.broke(err)
		}
	}
	k.writing.giveUp()
}

// writeAll writes out, in pieces that show whether it goes on. The caller holds the
// pool's mutex, and has it again afterwards.
func (k *conn) writeAll(out []byte) (n int, err error) {
	for n < len(out) && err == nil {
		k.since, k.writing.leaving = time.Now(), 0
		k.pool.unlock()
		var written int
		written, err = k.Conn.Write(out[n:min(len(out), n+writeMost)])
		k.pool.mu.Lock()
		n += written
	}
	return n, err
}

// wroteNothing reports whether a write that wrote nothing failed since the connection had
// ended before: nothing of it has left this machine.
func wroteNothing(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// read reads and hands out replies until own has its outcome, or its owner wants to leave.
// Without own it reads until the last reply is handed out, or the owner of the oldest call
// in flight can read; where connections ignore deadlines, until the end. The caller holds the pool's mutex, and
// has it again afterwards.
func (k *conn) read(own *Call) {
	p := k.pool
	k.reading.take(own)
	for k.broken == nil {
		p.unlock()
		n, err := k.in.fill(k.Conn)
		interrupted := err != nil && deadlinePassed(err)
		if interrupted {
			err = k.Conn.SetReadDeadline(time.Time{})
		}
		p.mu.Lock()
		k.reading.leaving = 0
		if k.broken != nil {
			break
		}
		handed, bad := k.handOut()
		if n > 0 && !handed {
			k.arrived = time.Now()
		}
		if err == nil {
			err = bad
		}
		if err != nil {
			k.broke(err)
			break
		}
		if own != nil && (own.state == ended || interrupted) {
			break
		}
		if first := k.inFlight.first; own == nil && !p.ignoresDeadlines && (first == nil && handed || first != nil && first.state == parked) {
			break
		}
	}
	if own != nil && own.state != ended && k.broken == nil && !own.done.isClosed() {
		if now := time.Now(); now.Before(own.Deadline) {
			k.reading.giveUp() // the interrupt was for the reader before, who has left: own reads on
			return
		}
		k.timeOut(own, time.Now())
	}
	k.reading.giveUp()
	k.handOverReading()
}

// deadlinePassed reports whether a read failed for its deadline alone. Connections of
// a user's Dialer have errors of their own for that. ETIMEDOUT, which calls itself a
// timeout, is what the system says of a connection that is broken.
func deadlinePassed(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	failed := net.Error(nil)
	return errors.As(err, &failed) && failed.Timeout() && !errors.Is(err, syscall.ETIMEDOUT)
}

// handOverReading has the owner of the oldest call in flight read, or a goroutine of the
// connection's own if that owner has gone. The caller holds the pool's mutex.
func (k *conn) handOverReading() {
	if k.idle() || !k.reading.free() || k.broken != nil {
		return
	}
	c := k.inFlight.first
	for c.lazy {
		c = c.next
	}
	switch {
	case c.state == parked:
		k.pool.rouse(c)
	case c.state == busy && !c.done.isClosed(): // it is about to look
	default:
		k.readAlone()
	}
}

// writeAlone has a goroutine of the connection's own write. The caller holds the pool's mutex.
func (k *conn) writeAlone() {
	k.writing.take(nil)
	k.pool.running.Go(func() {
		k.pool.mu.Lock()
		k.write(nil)
		k.pool.unlock()
	})
}

// readAlone has a goroutine of the connection's own read. The caller holds the pool's
// mutex.
func (k *conn) readAlone() {
	k.reading.take(nil)
	k.pool.running.Go(func() {
		k.pool.mu.Lock()
		k.read(nil)
		k.pool.unlock()
	})
}

// handOut gives the complete replies in the input to those who wait for them. The
// caller holds the pool's mutex.
func (k *conn) handOut() (handed bool, err error) {
	begin, answered, last := 0, 0, time.Time{}
	for _, end := range k.in.ends {
		c := k.inFlight.first
		if c == nil || c == k.unsent {
			return false, ErrProtocol // a reply to nothing that was asked
		}
		if c.state != ended {
			c.Reply = append(c.Reply, k.in.bytes[begin:end]...)
		}
		if c.missing--; c.missing == 0 {
			k.take()
			k.pool.finish(c, nil)
			answered, last = answered+1, c.added
		}
		begin = end
	}
	if begin > 0 {
		k.in.forget(begin)
		k.heard = time.Now()
		k.proven, k.untried = k.heard, false
		if answered > 0 {
			k.replied(k.heard.Sub(last))
		}
		if k.retired() {
			k.closeRetired()
		} else {
			k.adopt(k.heard)
			k.admit(answered, k.heard)
		}
	}
	if len(k.in.bytes) > 0 && (k.inFlight.n == 0 || k.inFlight.first == k.unsent) {
		return begin > 0, ErrProtocol // it begins a reply to nothing
	}
	return begin > 0, nil
}

// broke gives up a connection whose end was found. An error that comes when the pool has given it up already, such as that of a writer
// who is interrupted by that, says nothing of the others. The caller holds the pool's mutex.
func (k *conn) broke(err error) {
	if k.broken != nil {
		return
	}
	k.fail(err)
	if k.proven.Before(k.pool.broke) { // it may have ended with the one before
		return
	}
	k.pool.broke = time.Now()
	k.pool.doubt(k.pool.broke, err)
}

// doubt notes that a connection went bad at a moment. A server, a load balancer or a
// router that ends one, or loses it, mostly does so with all that rested as long, and
// nobody may see the end of those. So connections over which no reply has come since are
// not trusted: those that rest are given up, with err, and calls go over the others only
// where there is no better one. The caller holds mu.
func (p *Pool) doubt(at time.Time, err error) {
	if at.After(p.doubted) {
		p.doubted = at
	}
	for _, k := range p.conns {
		if k != nil && k.inFlight.n == 0 && k.doubtful() {
			k.fail(err)
		}
	}
}

// doubtful reports whether another connection went bad since a reply came over this one.
// The caller holds the pool's mutex.
func (k *conn) doubtful() bool { return k.proven.Before(k.pool.doubted) }

// shunned reports whether new calls rather take another connection. The caller holds
// the pool's mutex.
func (k *conn) shunned(now time.Time) bool { return k.overdue(now) || k.doubtful() }

// fail gives the connection up. All its calls end. The caller holds the pool's mutex.
func (k *conn) fail(err error) {
	if k.broken != nil {
		return
	}
	k.broken = err
	p := k.pool
	p.remove(k)
	sent := true
	for k.inFlight.n > 0 {
		c := k.take()
		sent = sent && c != k.unsent
		p.finish(c, &Error{Err: err, Sent: sent})
	}
	p.discard(k.Conn)
}
