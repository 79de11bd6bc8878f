package faultproxy

import (
	"bufio"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// way is one direction through the proxy, for all connections.
type way struct {
	delay atomic.Int64 // time.Duration

	inBytes atomic.Bool // what passes is written a byte at a time

	mu      sync.RWMutex  // held for reading while something passes
	healed  chan struct{} // not nil: black hole, closed at its end
	moving  chan struct{} // not nil: stalled, closed at its end
	reading chan struct{} // not nil: nobody reads, closed when somebody does
}

func (w *way) block()  { w.begin(&w.healed) }
func (w *way) stall()  { w.begin(&w.moving) }
func (w *way) deafen() { w.begin(&w.reading) }

// begin begins one of w's faults.
func (w *way) begin(fault *chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *fault == nil {
		*fault = make(chan struct{})
	}
}

// unblock ends all of them.
func (w *way) unblock() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range []*chan struct{}{&w.healed, &w.moving, &w.reading} {
		if *fault != nil {
			close(*fault)
			*fault = nil
		}
	}
}

// stalled returns a channel that is closed when things move again, nil when they
// do.
func (w *way) stalled() <-chan struct{} {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.moving
}

// deaf returns a channel that is closed when somebody reads again, nil when
// somebody does.
func (w *way) deaf() <-chan struct{} {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.reading
}

// blocked returns a channel that is closed when the black hole ends, nil when
// there is none.
func (w *way) blocked() <-chan struct{} {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.healed
}

// pass runs f unless there is a black hole, which cannot begin meanwhile. If
// there is one, it returns a channel that is closed when it ends.
func (w *way) pass(f func()) <-chan struct{} {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.healed == nil {
		f()
	}
	return w.healed
}

// queueLength bounds what is on its way in one direction of one connection. What
// does not fit stays with the sender.
const queueLength = 256

// pipe is one direction of one connection: receive and deliver, each in a
// goroutine of its own, so that a delay lets more than one frame be on its way.
type pipe struct {
	link *link
	way  *way // of all connections
	own  way  // of this one alone
	src  net.Conn
	dst  net.Conn
	read func(*bufio.Reader) (frame, error)
	wait func(frame) // nil, or what is to be done first
	hand func(frame) // forwards to dst, or decides not to

	queue chan parcel
	dead  bool // deliver's own: nothing passes any more
}

type parcel struct {
	frame frame
	due   time.Time
	end   bool // the source has closed its side
}

// receive reads frames until src or the link ends.
func (d *pipe) receive() {
	r := bufio.NewReader(d.src)
	for {
		if !d.passes(d.way.deaf) {
			return
		}
		f, err := d.read(r)
		if errors.Is(err, errProtocol) {
			d.link.fail(err)
			return
		}
		p := parcel{frame: f, due: time.Now().Add(time.Duration(d.way.delay.Load())), end: err != nil}
		select {
		case d.queue <- p:
		case <-d.link.closed():
			return
		}
		if p.end {
			return
		}
	}
}

// deliver hands on what receive has read, each frame when it is due.
func (d *pipe) deliver() {
	for {
		select {
		case p := <-d.queue:
			if !d.sleep(p.due) || !d.passes(d.way.stalled) || !d.passes(d.own.stalled) {
				return
			}
			if p.end {
				d.finish()
				return
			}
			if d.wait != nil && !d.dead {
				d.wait(p.frame)
			}
			d.forward(p.frame)
		case <-d.link.closed():
			return
		}
	}
}

// sleep returns true at the time due, or false when the link has ended.
func (d *pipe) sleep(due time.Time) bool {
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.link.closed():
		return false
	}
}

// passes returns true when nothing is in the way, which is what fault returns nil
// for, or false when the link has ended.
func (d *pipe) passes(fault func() <-chan struct{}) bool {
	for {
		over := fault()
		if over == nil {
			return true
		}
		select {
		case <-over:
		case <-d.link.closed():
			return false
		}
	}
}

func (d *pipe) forward(f frame) {
	if d.dead {
		return
	}
	if hole := d.pass(func() { d.hand(f) }); hole != nil {
		d.dead = true // what follows would stand behind a gap
		d.link.proxy.gaps.Add(1)
	}
}

// pass is way.pass, for all connections and for this one.
func (d *pipe) pass(f func()) (hole <-chan struct{}) {
	if all := d.way.pass(func() { hole = d.own.pass(f) }); all != nil {
		return all
	}
	return hole
}

// write hands f to dst. If dst has gone, that ends this direction only: what its
// owner had sent before it left must still arrive.
func (d *pipe) write(f frame) {
	n := len(f.bytes)
	if d.way.inBytes.Load() {
		n = 1
	}
	for part := range slices.Chunk(f.bytes, max(n, 1)) {
		if _, err := d.dst.Write(part); err != nil {
			d.dead = true
			return
		}
	}
}

// finish tells dst that no more will come; a black hole holds that back as well.
func (d *pipe) finish() {
	for {
		hole := d.pass(func() { closeWrite(d.dst) })
		if hole == nil {
			return
		}
		select {
		case <-hole:
		case <-d.link.closed():
			return
		}
	}
}

// closeWrite closes the sending half of conn, so that what dst still has to say
// gets through. A connection in memory has no halves.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // fails only when conn has ended
	} else {
		_ = conn.Close()
	}
}
