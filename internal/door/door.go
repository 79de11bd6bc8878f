// Package door is the way into a lock and out of it that all doors share:
// from what a key function returned to a lease, or to a refusal. sample.go finds
// out what a key function reads, when a door is made. within.go is what a door tells
// the Idempotent around it.
package door

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Acquire takes the locks that a key function named; keys and err are what
// keyfunc.KeysOf returned. Without a lease and an error it asks for no lock. The
// error is a *lockmw.AcquireError.
func Acquire(ctx context.Context, l *lockmw.Locker, keys keyfunc.Keys, err error, p lockmw.Policy) (*lockmw.Lease, error) {
	switch {
	case errors.Is(err, keyfunc.Skip):
		return nil, nil
	case err != nil:
		return nil, refused(ctx, NoKey(ctx, l, p, err))
	}
	var lease *lockmw.Lease
	if key, one := keys.One(); one {
		_, lease, err = l.Acquire(ctx, key, p)
	} else {
		_, lease, err = l.AcquireAll(ctx, keys.List(), p)
	}
	if err != nil {
		return nil, refused(ctx, err)
	}
	seam.TakenByDoor(lease)
	return lease, nil
}

// refused returns err, a refusal, and says that it is no answer to keep, whatever an error handler makes of it.
func refused(ctx context.Context, err error) error {
	lockmw.NotAnAnswer(ctx)
	return err
}

// NoKey is the refusal of a request that has no key, because of err. It looks like
// one of Acquire's, so that error handlers, observers and the log find the same in
// both. It is the request's fault, unless err Is keyfunc.ErrMisuse.
func NoKey(ctx context.Context, l *lockmw.Locker, p lockmw.Policy, err error) error {
	if !errors.Is(err, lockmw.ErrInvalidKey) && !errors.Is(err, keyfunc.ErrMisuse) {
		err = fmt.Errorf("%w: %w", lockmw.ErrInvalidKey, err)
	}
	return l.Refuse(ctx, p, err)
}

// NativeKey makes a key of what a native key function has returned, which is called
// name. Like a keyfunc.Value it is escaped where no key may hold a character, and a
// long one is shortened by a hash. An error does not name it to clients, who do not know it.
func NativeKey(name, s string, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case s == "":
		return "", fmt.Errorf("%w: %s", keyfunc.ErrMissing, name)
	}
	key, err := keyfunc.Value(name)(native{text: s})
	if named, ok := errors.AsType[*keyfunc.ValueError](err); ok {
		err = named.Err
	}
	return key, err
}

// A native is a Request whose every value is what a native key function has returned.
type native struct {
	keyfunc.Request
	text string
}

// Value returns the text.
func (n native) Value(string) (any, bool) { return n.text, true }

// NativeElsewhere is what a native key function, called name, returns for a Request
// that is not of its door: a made-up key to a Sample of the door, and otherwise the
// error of a function that is used in another package's middleware.
func NativeElsewhere(name string, r keyfunc.Request) (string, error) {
	if sample, ok := keyfunc.As[*Sample](r); ok && slices.Contains(sample.Natives, name) {
		sample.Absent, sample.Asked = "", true
		return made, nil
	}
	return "", fmt.Errorf("%w: a function from %s is used in the middleware of another package", keyfunc.ErrMisuse, name)
}

// RetryAfter returns the header Retry-After of a refusal, in whole seconds, or an empty
// string where asking again makes no sense.
func RetryAfter(refusal lockmw.Refusal) string {
	if refusal.RetryAfter <= 0 {
		return ""
	}
	seconds := refusal.RetryAfter / time.Second
	if refusal.RetryAfter%time.Second > 0 {
		seconds++
	}
	return strconv.FormatInt(int64(seconds), 10)
}

// ClientGone reports whether there is nobody left to answer.
func ClientGone(refusal lockmw.Refusal) bool { return refusal.Status == lockmw.StatusClientGone }

// WithLoss adds a lost lock to the handler's error, which may be nil. The text
// stays one line.
func WithLoss(err, lost error) error {
	if err == nil {
		return lost
	}
	return fmt.Errorf("%w; %w", err, lost)
}

// Release gives a lock back. The error is nil or lockmw.ErrLost: the handler may have worked
// without the lock. It is the bare one, because frameworks record it: a Lease of several locks
// names those that were lost, and keys are often private. The Locker's logger has them. A release
// that Redis does not answer, or refuses, is no error: the work was done under the lock, and the
// Locker has logged it. An Idempotent around the lock is told if the lock was lost, or was held for
// longer than MaxHold: ctx is the context in which the lock was taken.
func Release(ctx context.Context, lease *lockmw.Lease) error {
	stopped := wasStopped(context.Cause(lease.Context()))
	lost := errors.Is(lease.Release(ctx), lockmw.ErrLost)
	if stopped || lost {
		tellStopped(ctx)
	}
	if lost {
		return lockmw.ErrLost
	}
	return nil
}

// OddInteger has the Locker's log say, once for each route and placeholder, that the key is made from
// an integer that has several spellings.
func OddInteger(ctx context.Context, l *lockmw.Locker, p lockmw.Policy, route, source, name string) {
	of := ""
	if route != "" {
		of = fmt.Sprintf(" of route %q", route)
	}
	seam.Warn(l, ctx, p, fmt.Sprintf(
		"the key%s is made from %s %q, which was an integer in another spelling, such as 042: to a handler that reads a number it is the same, "+
			"and the lock another one; write {%[2]s.%[3]s|int}", of, source, name))
}
