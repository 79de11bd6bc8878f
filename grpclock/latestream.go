package grpclock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockmw/kit/internal/entry"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A lateStream is a stream that is locked when its first message comes.
type lateStream struct {
	grpc.ServerStream
	door   *door
	lock   *lock
	method string
	ctx    *lateContext
	held   *heldMetadata

	mu      sync.Mutex // a handler may leave others at work in RecvMsg and return
	decided bool       // the first message, or the end in its place, has come
	refusal error      // the call's status, if it is refused
	lease   *lockmw.Lease
	left    bool // the handler has returned
}

// runLate runs the handler of a stream that is locked by its first message.
func (d *door) runLate(srv any, ss grpc.ServerStream, method string, l *lock, handler grpc.StreamHandler) error {
	ctx, held := holdTrailer(ss.Context(), ss)
	s := &lateStream{ServerStream: ss, door: d, lock: l, method: method, ctx: newLateContext(ctx), held: held}
	err, lost := s.run(srv, handler)
	switch {
	case s.refusal != nil:
		return s.refusal
	case lost != nil:
		return d.refuse(ss.Context(), method, entry.WithLoss(err, lost), ss.SetTrailer)
	}
	return err
}

// run runs the handler and releases the lock, if one was taken, also when the
// handler panics or calls runtime.Goexit. It returns the handler's error, and
// one that says that the lock was lost.
func (s *lateStream) run(srv any, handler grpc.StreamHandler) (err, lost error) {
	defer func() {
		lost = s.leave()
		s.held.end(lost != nil || s.refusal != nil)
	}()
	return handler(srv, s), nil
}

// leave ends the context, and then releases the lock, as a lease does: what the
// handler has left behind is told before others can have the lock. From then on
// nothing about the stream changes any more.
func (s *lateStream) leave() error {
	s.mu.Lock()
	s.left = true
	s.mu.Unlock()
	if s.lease == nil {
		s.ctx.cancel(lockmw.ErrReleased)
		return nil
	}
	s.ctx.endWith(s.lease) // what it ended with, if it has
	s.ctx.cancel(lockmw.ErrReleased)
	return entry.Release(s.ServerStream.Context(), s.lease)
}

// Context returns one and the same context before and after the lock is taken.
// It ends with the lease, and lockmw.FromContext finds the lease in it, as
// soon as there is one.
func (s *lateStream) Context() context.Context { return s.ctx }

// SetTrailer holds the trailer until it is known whether the lock was lost.
func (s *lateStream) SetTrailer(md metadata.MD) { _ = s.held.SetTrailer(md) }

// RecvMsg receives a message. The first is what the stream is locked by; if
// that is refused, this and every later call returns the refusal.
func (s *lateStream) RecvMsg(m any) error {
	decided, err := s.state()
	if err != nil {
		return err
	}
	err = s.ServerStream.RecvMsg(m)
	switch {
	case decided && err == nil:
		_, err = s.state() // it may have been lost meanwhile
		return err
	case decided:
		return err
	case err == nil:
		return s.enter(m)
	case errors.Is(err, io.EOF):
		return s.refuse(entry.NoKey(s.ServerStream.Context(), s.door.locker, s.lock.Policy, fmt.Errorf("%w: the stream has ended before its first message", keyfunc.ErrMissing)))
	}
	return err
}

// SendMsg sends a message, unless the stream is refused or its lock over.
func (s *lateStream) SendMsg(m any) error {
	if _, err := s.state(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// state returns whether the first message has come, and why the stream cannot
// go on.
func (s *lateStream) state() (decided bool, err error) {
	s.mu.Lock()
	lease, decided, refusal := s.lease, s.decided, s.refusal
	s.mu.Unlock()
	if refusal != nil || lease == nil {
		return decided, refusal
	}
	if err := over(lease, s.ServerStream); err != nil {
		s.ctx.endWith(lease) // before the handler is told
		return true, err
	}
	return true, nil
}

// enter takes the lock of the first message.
func (s *lateStream) enter(m any) error {
	ctx := s.ctx.Context // without the lease that is to come
	keys, _, err := s.door.keys(ctx, s.method, s.lock, m)
	lease, err := s.door.acquire(ctx, s.lock, keys, err)
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
		_ = lease.Release(ctx) // the Locker logs what goes wrong
		return statusOf(lockmw.Refusal{Status: lockmw.StatusClientGone})
	default:
		s.ctx.follow(lease)
	}
	return nil
}

// refuse makes the error of Acquire the stream's status.
func (s *lateStream) refuse(err error) error {
	refusal := s.door.refuse(s.ServerStream.Context(), s.method, err, s.ServerStream.SetTrailer)
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
	if cause := context.Cause(lease.Context()); cause != nil {
		c.cancel(cause)
	}
}

// Value returns what the lease's context adds to its parent's: the lease.
// Everything else comes from c's own, above all what package context keeps in
// it to find out how it ends.
func (c *lateContext) Value(key any) any {
	if lease := c.lease.Load(); lease != nil {
		if found, is := lease.Context().Value(key).(*lockmw.Lease); is {
			return found
		}
	}
	return c.Context.Value(key)
}
