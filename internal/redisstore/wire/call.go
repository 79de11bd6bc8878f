package wire

import (
	"errors"
	"time"
)

// A Call is a number of commands that are sent together, and their replies. It may be used
// again where Do says so, which saves the memory for its bytes.
type Call struct {
	Commands []byte    // encoded, see AppendCommand
	Replies  int       // how many there will be: one for each command
	Deadline time.Time // the end of the whole call; that it has passed is found within a tick (10 ms)
	Urgent   bool      // the call goes behind as few others as may be
	Patient  bool      // the call is not sent while the server is behind, see behind.go

	// Behind, if not nil, was posted, and this call goes behind it over its connection, or is not sent (post.go). It must not be used
	// for another call before Do has returned.
	Behind *Call

	// Late, if not nil, is called once if Do returned an error that is Pending, and after
	// Post: with the replies that have come since, or with an error. It must not block.
	Late func(replies []byte, err error)

	// Reply has the replies that have come, one behind the other: all of them, unless
	// there is an error.
	Reply []byte

	// What follows is the pool's, and guarded by its mutex. The owner of a call is the
	// goroutine that called Do with it.
	done    doneChan // of its owner's context
	state   state
	err     error         // the outcome, once the state is ended
	missing int           // replies that have not come
	lazy    bool          // nobody waits for the replies: they are read with those of others, or by the tick
	awaited bool          // it is over where its connection hangs: it was posted, and somebody has come who waits for it, or it went behind such a one
	conn    *conn         // nil: the call waits for one, or is held back
	added   time.Time     // when the call was put on conn, or among those that are held back
	next    *Call         // the call behind it in the same queue
	toWake  *Call         // the next one to be woken, see Pool.unlock
	woken   chan struct{} // has room for one: the owner, which is parked, is to go on
}

// A state says what the owner of a call does. Only Pool.begin, Await, park, rouse, leave and finish
// change it.
type state uint8

const (
	busy   state = iota // the owner chooses a connection, writes, reads, or was woken and will look what to do
	parked              // the owner waits until it is woken
	left                // the owner has gone; what comes of the call is for Late
	ended               // the call has its outcome; replies that still come are dropped
)

// A doneChan is the Done of the context of a call's owner, and all that the pool knows of that. The owner asks the context for it
// once, before the pool has the call. A context may panic whenever it is asked, as that of a request may which its framework has
// taken back, and the pool looks whether it has ended with its mutex locked, on the goroutines of others, and in the tick.
type doneChan <-chan struct{}

// isClosed reports whether the context has ended.
func (d doneChan) isClosed() bool {
	select {
	case <-d:
		return true
	default:
		return false
	}
}

// leaves reports whether c's owner wants to go: its context has ended, or its time is up.
func (c *Call) leaves(now time.Time) bool { return c.done.isClosed() || !now.Before(c.Deadline) }

// An Error is a call without its replies.
type Error struct {
	Err error

	// Sent: the commands were written or will be, at least in part, and may be carried
	// out. Without it none of them was, and none will be.
	Sent bool

	// Pending: the call's context has ended first, and Late gets what comes of it.
	Pending bool
}

// Error returns the cause's text.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrTimeout is a call whose deadline has passed.
	ErrTimeout = errors.New("no reply in time")

	// ErrBehind is a patient call that was held back until its deadline passed.
	ErrBehind = errors.New("the server is behind")

	// ErrNotBehind is a call that cannot go behind another one, see Call.Behind.
	ErrNotBehind = errors.New("there is nothing to go behind")

	// ErrSilent is a connection on which nothing came for too long.
	ErrSilent = errors.New("the connection is silent")

	// ErrStuck is a connection whose server does not read.
	ErrStuck = errors.New("the server does not take more commands")

	// ErrIgnoresDeadlines is the end of a connection that does not heed read deadlines.
	ErrIgnoresDeadlines = errors.New("the connection does not heed read deadlines: is that a matter of the client's Dialer?")

	// ErrClosed is a pool that was closed.
	ErrClosed = errors.New("the connections are closed")
)

// A queue is a list of calls, the oldest first. They are linked through themselves, by
// Call.next, so that to send a call takes no memory: container/list would take an element for
// each.
type queue struct {
	first, last *Call
	n           int // its length
}

func (q *queue) add(c *Call) {
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last, c.next = c, nil
	q.n++
}

// take removes and returns the first call. There must be one.
func (q *queue) take() *Call {
	c := q.first
	if q.first = c.next; q.first == nil {
		q.last = nil
	}
	q.n--
	c.next = nil
	return c
}
