package door

import (
	"context"
	"errors"
	"slices"

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

// TellError says what follows from the error of a handler, nil or not, as lockmw.Do does of its function's: whether nobody knows what was done, or
// nothing was done because a lock that the handler takes itself was not acquired. That counts only while the handler was not told to stop: behind that, a
// wait for a lock ends as well, and the handler may have been in the middle of its work.
func TellError(ctx context.Context, err error) {
	switch {
	case errors.Is(err, lockmw.ErrUncertain):
		lockmw.MarkUncertain(ctx)
	case wasStopped(err):
		Doubt(ctx)
	case isRefusal(err) && !IsStopped(ctx):
		lockmw.NotAnAnswer(ctx)
	}
}

// isRefusal reports whether err says that a lock was not acquired, and nothing else: beside another error, that one may tell of work that was done.
func isRefusal(err error) bool {
	switch is := err.(type) { //nolint:errorlint // it goes through all that err wraps
	case *lockmw.AcquireError:
		return true
	case interface{ Unwrap() []error }:
		all := is.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !isRefusal(err) })
	case interface{ Unwrap() error }:
		return isRefusal(is.Unwrap())
	case recorded:
		return isRefusal(is.err)
	}
	return false
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
