package lockmw

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/report"
)

// Work that was noted as begun (Flight.Crash is Uncertain), and of which nobody knows whether it was done when its call is over: its intent stays. How
// that comes to be, and the line in the log. A door within the work, or the one around it, may know more than the work returns, and says so by seam.Call.

// Why nobody knows whether work was done, for the log.
const (
	whyPanicked  = "the work has panicked, or has ended its goroutine"
	whySaid      = "the work says that it does not know"
	whyStopped   = "the work, or something within it, was told to stop, has lost a lock or took too long, before the work had told what it did"
	whyGivenBack = "the lock was given back in the middle of the work"
	whyLost      = "the lock was lost"
	whyUntold    = "Redis could not be told how the work ended"
)

// A remark is what is said of a call's work while that is under way: by the work itself, or by a door within it or around it.
type remark uint32

const (
	forItself  remark = 1 << iota // NotAnAnswer: what the function returns is for its own caller alone
	unknowing                     // MarkUncertain, which also says forItself: the work does not know whether it was done
	doubtful                      // Doubt: what the function returns does not tell whether the work was done
	toldToStop                    // Stop: a lock within the work has ended before what ran under it
)

// noneForOthers are the remarks by which what the function returns is for its own caller alone.
const noneForOthers = forItself | doubtful

// remarks are those that were made. They are safe for concurrent use.
type remarks struct{ made atomic.Uint32 }

func (r *remarks) add(one remark) { r.made.Or(uint32(one)) }

// all returns those that were made by now. More may come at any time, so a question about several is asked of one such value.
func (r *remarks) all() remark { return remark(r.made.Load()) }

// have reports whether one of these was made.
func (r *remarks) have(mask remark) bool { return r.all()&mask != 0 }

type callKey struct{}

// NotAnAnswer says that what the function of Do returns, or what a handler behind a middleware called Idempotent answers, is for its
// own caller alone. It is neither kept nor given to others, and the next call runs its function. ctx is the function's context, or one
// that was made of it. Call it where work is refused, as by a rate limit or a circuit breaker, and in a handler that knows that
// nothing was done. The middlewares and interceptors of this module that take locks call it for their own refusals. Elsewhere it has
// no effect.
//
// With Flight.Crash Uncertain, NotAnAnswer also counts where the function was told to stop, because MaxHold has passed or a lock
// within the work was lost. It does not count where the lock of Do, or of the middleware called Idempotent, was lost before the
// function returned, nor where the function calls MarkUncertain or returns an error that Is ErrUncertain: then the next call is told
// that nobody knows.
func NotAnAnswer(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.remarks.add(forItself)
	}
}

// MarkUncertain says that it is not known whether the work was done: a payment provider, for example, has not answered in time. It may
// be called where NotAnAnswer may be called. What the function returns, or the handler answers, is for its own caller alone. With
// Flight.Crash Uncertain the next call gets ErrUncertain, until Locker.Resolve says what has happened or Flight.UncertainFor is over.
// With RunAgain the next call runs its function. Elsewhere MarkUncertain has no effect. A function of Do may as well return an error
// that Is ErrUncertain.
func MarkUncertain(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.remarks.add(forItself | unknowing)
	}
}

// whyUnknown says why work of which this was said, and that has returned err, does not tell whether it was done. It is empty if the
// work tells that.
func (said remark) whyUnknown(lease *Lease, err error) (why string) {
	switch {
	case said&unknowing != 0, errors.Is(err, ErrUncertain):
		return whySaid
	case said&forItself != 0: // the work says that nothing was done
		return ""
	case said&doubtful != 0, err != nil && stopped(lease, err):
		return whyStopped
	}
	return ""
}

// findUnknown finds out whether the intent of the call's work stays, when its lease has ended, and logs that.
func (c *call) findUnknown(lease *Lease) {
	keeps := lease.toKeep().answer
	switch {
	case c.how.Crash != Uncertain:
		return
	case keeps == nil:
	case keeps.Undone && lease.holds(lost): // see outlivesTheLock
		c.why = whyLost
	default:
		return
	}
	c.left = &UncertainError{Key: c.of.key, ID: strconv.FormatInt(lease.fence, 10), Since: time.UnixMicro(c.begun)}
	c.locker.logUncertain(c.ctx, lease.policy.Name, c.left, c.why)
}

// Stop, Stopped, Doubt, Doubted and Unknown make a call a seam.Call.

// Stop notes that a lock within the work has ended before the work under it did.
func (c *call) Stop() { c.remarks.add(toldToStop) }

// Stopped reports whether Stop was called.
func (c *call) Stopped() bool { return c.remarks.have(toldToStop) }

// Doubt says that what the function returns does not tell whether the work was done.
func (c *call) Doubt() { c.remarks.add(doubtful) }

// Doubted reports whether Doubt was called.
func (c *call) Doubted() bool { return c.remarks.have(doubtful) }

// Unknown returns the *UncertainError of work whose intent has stayed.
func (c *call) Unknown() error {
	if c.left == nil {
		return nil
	}
	return c.left
}

// logUncertain logs that nobody knows whether work was done, unless the log of this process has a line about that work.
func (l *Locker) logUncertain(ctx context.Context, name string, work *UncertainError, why string) {
	if !l.log.Enabled(ctx, slog.LevelError) {
		return
	}
	quiet, ok := l.refusals.Admits(report.Kind{Name: name, Reason: CodeIdempotencyUncertain, Mistake: work.mistake()}, time.Now())
	if !ok {
		return
	}
	attrs := []slog.Attr{
		slog.String("name", name), slog.String("key", work.Key), slog.String("reason", CodeIdempotencyUncertain),
		slog.Any("error", work), slog.String("work", work.ID), slog.String("why", why),
	}
	if quiet > 0 {
		attrs = append(attrs, slog.Int("not_logged", quiet))
	}
	l.log.LogAttrs(ctx, slog.LevelError, "lockmw: nobody knows whether work was done, and whoever asks for it is refused: look, and say so with lockctl resolve", attrs...)
}

// mistake is what lines about the work have in common, of which one is logged.
func (e *UncertainError) mistake() string { return e.Key + " " + e.ID }
