package store

import (
	"context"
	"time"
)

// Until returns ctx's values with a deadline, or ctx's own if that is earlier.
// It does not end, so that a Store need not watch it; what is asked with it is
// bounded by the deadline.
func Until(ctx context.Context, deadline time.Time) context.Context {
	if own, ok := ctx.Deadline(); ok && own.Before(deadline) {
		deadline = own
	}
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	return until{ctx, deadline}
}

type until struct {
	context.Context
	deadline time.Time
}

// Deadline implements context.Context.
func (u until) Deadline() (time.Time, bool) { return u.deadline, true }
