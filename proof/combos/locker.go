package combos

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// A Lease is what a round asks of a lease; *lockmw.Lease is one.
type Lease interface {
	Context() context.Context
	Valid() bool
	ValidUntil() time.Time
	Ticket(lasts time.Duration) string
	Release(ctx context.Context) error
}

// A Locker is what a round asks of a Locker, so that a broken one can be put in
// its place and a judge be seen to notice.
type Locker interface {
	// Acquire takes one key or several. The names of those keys that it runs
	// without are in open.
	Acquire(ctx context.Context, keys []string, p lockmw.Policy) (lease Lease, open []string, err error)
	// Resume goes on by a ticket.
	Resume(ctx context.Context, ticket string, p lockmw.Policy) (Lease, error)
	Validate(p lockmw.Policy) error
	Close(ctx context.Context) error
}

// Settings are what a Locker is opened with.
type Settings struct {
	Namespace string
	Observer  func(context.Context, lockmw.Event)
	Logger    *slog.Logger
}

// Open opens a Locker of this module.
func Open(client redis.UniversalClient, s Settings) (Locker, error) {
	opts := []lockmw.Option{lockmw.WithNamespace(s.Namespace), lockmw.WithMaxWaiters(2*crowd, 10*crowd)}
	if s.Observer != nil {
		opts = append(opts, lockmw.WithObserver(s.Observer))
	}
	if s.Logger != nil {
		opts = append(opts, lockmw.WithLogger(s.Logger))
	}
	locks, err := lockmw.New(client, opts...)
	if err != nil {
		return nil, err
	}
	return ours{locks}, nil
}

type ours struct{ *lockmw.Locker }

func (o ours) Acquire(ctx context.Context, keys []string, p lockmw.Policy) (Lease, []string, error) {
	var lease *lockmw.Lease
	var err error
	if len(keys) == 1 {
		_, lease, err = o.Locker.Acquire(ctx, keys[0], p)
	} else {
		_, lease, err = o.AcquireAll(ctx, keys, p)
	}
	if err != nil {
		return nil, nil, err
	}
	var open []string
	for _, key := range keys {
		if lease.FenceOf(p.Prefix+key) == 0 { // where a lock is held, on one Redis, there is a fence
			open = append(open, key)
		}
	}
	return lease, open, nil
}

func (o ours) Resume(ctx context.Context, ticket string, p lockmw.Policy) (Lease, error) {
	_, lease, err := o.Locker.Resume(ctx, ticket, p)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// What a call came to.
const (
	granted     = "granted"
	ranOpen     = "ran without the lock"
	notAcquired = "ErrNotAcquired"
	unavailable = "ErrUnavailable"
	queueFull   = "ErrQueueFull"
	closed      = "ErrClosed"
	lost        = "ErrLost"
	spent       = "ErrTicketSpent"
	other       = "another error"
)

// outcomeOf names what an error is.
func outcomeOf(err error) string {
	for _, known := range []struct {
		is   error
		name string
	}{
		{lockmw.ErrTicketSpent, spent}, {lockmw.ErrLost, lost}, {lockmw.ErrClosed, closed}, {lockmw.ErrUnavailable, unavailable}, {lockmw.ErrQueueFull, queueFull}, {lockmw.ErrNotAcquired, notAcquired},
	} {
		if errors.Is(err, known.is) {
			return known.name
		}
	}
	return other
}
