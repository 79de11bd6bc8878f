package rpcdoor

import (
	"context"
	"sync/atomic"

	"github.com/lockmw/kit/lockmw"
)

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
