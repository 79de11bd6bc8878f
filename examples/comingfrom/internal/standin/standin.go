// Package standin stands in for libraries that need a JVM. It is not these libraries: each type sends to
// Redis the commands that one of them sends, in the same order, and does nothing else. What it was read from
// is named there.
//
//   - shedlock.go is ShedLock's provider for Redis.
//   - lock4j.go is lock4j with RedisTemplate.
//   - aspect.go is an aspect behind an annotation @DistributedLock, of which many programs have one of their own.
package standin

import (
	"context"
	"time"
)

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
