package rpcdoor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A StreamCall is one call of a streaming method, as its framework knows it.
type StreamCall struct {
	Call

	// OneMessage tells that the client sends one message, without which the handler has
	// nothing to do: the lock is taken when that has come, whatever the key is made from.
	OneMessage bool

	// Inner is the context of which the handler's is made: that of the call, or a child in which
	// the framework's interceptor has put what the handler is to find.
	Inner context.Context

	// Status returns the error that tells a client of a refusal.
	Status func(lockmw.Refusal) error

	// Refuse returns the call's error for one of Acquire's or a lost lock. It is called
	// once.
	Refuse func(err error) error

	// Unlocked runs the handler without a lock.
	Unlocked func() error

	// Locked runs the handler, whose context, Receive and Send are those of s.
	Locked func(s *Stream) error

	// End is called when the handler is done; refused tells that the call's error is not
	// the handler's.
	End func(refused bool)
}

// A Stream is a stream under its lock. The lock is taken before the handler runs, or
// when the first message comes.
type Stream struct {
	StreamCall
	door *Door
	rule *MethodRule
	ctx  context.Context // the handler's
	late *lateContext    // the same, of a stream that is locked by its first message; or nil

	mu      sync.Mutex // a handler may leave others at work in Receive and return
	decided bool       // the first message, or the end in its place, has come, or need not
	refusal error      // the call's status, if it is refused
	lease   *lockmw.Lease
	left    bool // the handler has returned
}

// Stream runs the handler of a stream under its lock, and returns the call's error.
func (d *Door) Stream(rule *MethodRule, c StreamCall) error {
	s := &Stream{StreamCall: c, door: d, rule: rule}
	if !rule.needsMessage && !c.OneMessage {
		keys, early, err := d.keys(c.Call, rule, nil)
		// A key function that has asked for the message was told that there is none yet. The key or
		// error that it has made of that does not count: it is asked again when the message has come.
		if !early {
			lease, err := d.acquire(c.Inner, rule, keys, err)
			switch {
			case err != nil:
				return c.Refuse(err)
			case lease == nil:
				return c.Unlocked()
			}
			s.decided, s.lease, s.ctx = true, lease, lease.Context()
		}
	}
	if s.lease == nil {
		s.late = newLateContext(c.Inner)
		s.ctx = s.late
	}
	err, lost := s.run()
	switch {
	case s.refusal != nil:
		return s.refusal
	case lost != nil:
		return s.Refuse(door.WithLoss(err, lost))
	case err == nil && !s.decided && c.Context.Err() == nil:
		d.warnUnlocked(c.Method)
	}
	return err
}

// unlocked has the methods that were reported by warnUnlocked, with the Locker that would have
// had their lock.
var unlocked sync.Map

// warnUnlocked reports a stream that is locked by its first message, and whose handler has
// succeeded without asking for one: whatever it did was done without the lock.
func (d *Door) warnUnlocked(method string) {
	if _, again := unlocked.LoadOrStore(d.Locker.Instance()+" "+method, true); !again {
		d.Logger.Warn(d.Package+": a stream ran without its lock, which is taken when its handler receives the first message: the handler has received none",
			"method", method)
	}
}

// run runs the handler and releases the lock, if one was taken, also when the
// handler panics or calls runtime.Goexit. It returns the handler's error, and
// one that says that the lock was lost.
func (s *Stream) run() (err, lost error) {
	failed := true // so has a handler that panics
	defer func() {
		lost = s.leave(failed)
		s.End(lost != nil || s.refusal != nil)
	}()
	err = s.Locked(s)
	failed = err != nil
	return err, nil
}

// leave ends the context, and then releases the lock, as a lease does: what the
// handler has left behind is told before others can have the lock. From then on
// nothing about the stream changes any more.
func (s *Stream) leave(failed bool) error {
	s.mu.Lock()
	s.left = true
	s.mu.Unlock()
	if s.late != nil {
		if s.lease != nil {
			s.late.endWith(s.lease) // what it ended with, if it has
		}
		s.late.cancel(lockmw.ErrReleased)
	}
	if s.lease == nil {
		return nil
	}
	if failed {
		s.lease.MarkFailed()
	}
	return door.Release(s.Call.Context, s.lease)
}

// Context returns the handler's context. It is one and the same before and after the
// lock is taken. It ends with the lease, and lockmw.FromContext finds the lease in it,
// as soon as there is one.
func (s *Stream) Context() context.Context { return s.ctx }

// Receive receives a message by the framework's receive. If the lock is not taken yet, it is by the
// first message; if that is refused, this and every later call returns the refusal.
func (s *Stream) Receive(m any, receive func(any) error) error {
	decided, err := s.state()
	if err != nil {
		return err
	}
	err = receive(m)
	_, over := s.state() // it may have been lost meanwhile, or the handler has returned
	switch {
	case decided && err != nil:
		return err
	case over != nil || decided:
		return over
	case err == nil:
		return s.enter(m)
	case errors.Is(err, io.EOF):
		return s.refuse(door.NoKey(s.Call.Context, s.door.Locker, s.rule.Policy, fmt.Errorf("%w: the stream has ended before its first message", keyfunc.ErrMissing)))
	}
	return err
}

// Send sends a message by the framework's send, unless the stream is refused, its lock over, or
// its handler has returned: what that has left behind must not touch the framework's stream.
func (s *Stream) Send(m any, send func(any) error) error {
	if _, err := s.state(); err != nil {
		return err
	}
	return send(m)
}

// state returns whether the first message has come, and why the stream cannot
// go on.
func (s *Stream) state() (decided bool, err error) {
	s.mu.Lock()
	lease, decided, refusal, left := s.lease, s.decided, s.refusal, s.left
	s.mu.Unlock()
	switch {
	case refusal != nil:
		return decided, refusal
	case left:
		return true, s.Status(gone)
	case lease == nil:
		return decided, nil
	}
	if err := s.over(lease); err != nil {
		if s.late != nil {
			s.late.endWith(lease) // before the handler is told
		}
		return true, err
	}
	return true, nil
}

// over returns an error when the lease has ended: a stream receives and sends
// no longer than its context lives, and this is its context. Handlers of
// streams look at the errors of these, rather than at their context.
func (s *Stream) over(lease *lockmw.Lease) error {
	cause := context.Cause(lease.Context())
	switch {
	case cause == nil, s.Call.Context.Err() != nil: // of its own end the stream knows itself
		return nil //nolint:nilerr // the stream returns it
	case errors.Is(cause, lockmw.ErrLost):
		return s.Status(door.Refusal(lockmw.ErrLost))
	case errors.Is(cause, lockmw.ErrMaxHold):
		return s.Status(overMaxHold)
	}
	return s.Status(gone) // it was released
}

// enter takes the lock of the first message.
func (s *Stream) enter(m any) error {
	call := s.Call
	call.Context = s.late.Context // without the lease that is to come
	lease, err := s.door.Enter(call, s.rule, m)
	if err != nil {
		return s.refuse(err)
	}
	s.mu.Lock()
	left := s.left
	if !left {
		s.decided, s.lease = true, lease
	}
	s.mu.Unlock()
	switch {
	case lease == nil:
	case left: // nobody waits for it any more
		_ = lease.Release(call.Context) // the Locker logs what goes wrong
		return s.Status(gone)
	default:
		s.late.follow(lease)
	}
	return nil
}

// refuse makes the error of Acquire the stream's status.
func (s *Stream) refuse(err error) error {
	refusal := s.Refuse(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left {
		s.decided, s.refusal = true, refusal
	}
	return refusal
}

// A lateContext is a child of the stream's context that becomes one of a
// lease's, too, when there is one.
type lateContext struct {
	context.Context
	cancel context.CancelCauseFunc
	lease  atomic.Pointer[lockmw.Lease]
}

func newLateContext(parent context.Context) *lateContext {
	c := new(lateContext)
	c.Context, c.cancel = context.WithCancelCause(parent)
	return c
}

// follow has c end with the lease, whose context is a child of c's own. What is
// registered there is gone when the lease ends.
func (c *lateContext) follow(lease *lockmw.Lease) {
	c.lease.Store(lease)
	context.AfterFunc(lease.Context(), func() { c.endWith(lease) })
}

// endWith ends c if the lease's context has ended, with the same cause. What
// follow has registered does so in a goroutine of its own, a moment later.
func (c *lateContext) endWith(lease *lockmw.Lease) {
	if ctx := lease.Context(); ctx.Err() != nil {
		c.cancel(context.Cause(ctx))
	}
}

// catchUp ends c if its lease has ended. Whoever looks at c calls it first, and so never finds it
// alive when the lease is not: the goroutine that follow has registered may be late. Only who
// waits at a channel that Done returned before waits for that.
func (c *lateContext) catchUp() {
	if lease := c.lease.Load(); lease != nil {
		c.endWith(lease)
	}
}

// Done returns a channel that is closed when the stream's context has ended, or the lease's.
func (c *lateContext) Done() <-chan struct{} {
	c.catchUp()
	return c.Context.Done()
}

// Err returns whether the stream's context has ended, or the lease's.
func (c *lateContext) Err() error {
	c.catchUp()
	return c.Context.Err()
}

// Value returns what the lease's context adds to its parent's: the lease.
// Everything else comes from c's own, above all what package context keeps in
// it to find out how it ends, as context.Cause does.
func (c *lateContext) Value(key any) any {
	if lease := c.lease.Load(); lease != nil {
		c.catchUp()
		if found, is := lease.Context().Value(key).(*lockmw.Lease); is {
			return found
		}
	}
	return c.Context.Value(key)
}
