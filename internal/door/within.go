package door

import (
	"context"
	"errors"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// What a door tells the Idempotent around it, if there is one, of the work within: what an answer says may be true or not where a lock within the
// work has ended before the work did. ctx is a context within that Idempotent's work; elsewhere these functions do nothing. They count less than the
// handler's own lockmw.NotAnAnswer, which says that nothing was done.

// Doubt says that whatever is answered does not tell whether the work was done: it is not kept, and with lockmw.Uncertain nobody knows.
func Doubt(ctx context.Context) {
	if call := seam.CallOf(ctx); call != nil {
		call.Doubt()
	}
}

// DoubtError says what follows from the error of a handler, nil or not, as lockmw.Do does of its function's.
func DoubtError(ctx context.Context, err error) {
	if errors.Is(err, lockmw.ErrUncertain) {
		lockmw.MarkUncertain(ctx)
	}
	if wasStopped(err) {
		Doubt(ctx)
	}
}

// IsDoubted reports whether one of these was said of the work.
func IsDoubted(ctx context.Context) bool {
	call := seam.CallOf(ctx)
	return call != nil && call.Doubted()
}

// IsStopped reports whether the work was told to stop: its context has ended, or that of a lock within it had ended before what ran under that
// lock was done.
func IsStopped(ctx context.Context) bool {
	call := seam.CallOf(ctx)
	return ctx.Err() != nil || call != nil && call.Stopped()
}

// tellStopped says that the work was told to stop by one of its locks.
func tellStopped(ctx context.Context) {
	if call := seam.CallOf(ctx); call != nil {
		call.Stop()
	}
}

// wasStopped reports whether an error, or the cause of a context's end, is that a lock was lost or held for too long.
func wasStopped(err error) bool {
	return errors.Is(err, lockmw.ErrLost) || errors.Is(err, lockmw.ErrMaxHold)
}
