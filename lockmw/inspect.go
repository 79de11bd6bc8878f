package lockmw

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// Info tells who has a lock, for operators and tests.
type Info struct {
	Key     string
	Held    bool
	Mode    Mode
	Permits int      // of a semaphore, the least that binds now; 0: it is none
	Holders []Holder // those who have it longest in front

	// Waiting is how many wait for it; 0 on a quorum, which has no queue. Of
	// those in other processes, some are counted late, by a second or two.
	Waiting int
}

// A Holder is one who has a lock.
type Holder struct {
	// Instance names the holder's Locker, see Locker.Instance. It is empty if
	// a program that is not ours has the lock.
	Instance string
	Age      time.Duration // since it was acquired; 0 if that is not known
	Left     time.Duration // of the TTL, without a further renewal; negative: there is no TTL
}

// Instance names this Locker in Info. It is random; log it at the start to
// find the process that holds a lock. It is no secret: nothing can be released
// with it.
func (l *Locker) Instance() string { return l.store.Instance() }

// Inspect tells who has the lock called key, the prefix included. On a quorum
// it tells what a majority agrees on. The answer is that of a moment: base no
// decision of a program on it. The error Is ErrInvalidKey, ErrClosed or
// ErrUnavailable; ctx bounds it, and so does a second.
func (l *Locker) Inspect(ctx context.Context, key string) (Info, error) {
	i := Info{Key: key}
	err := l.operate(ctx, "inspect", key, func(ctx context.Context) error {
		got, err := l.store.Inspect(ctx, key)
		i.Held, i.Permits, i.Waiting = len(got.Holders) > 0, got.Kind.Permits, got.Waiting+l.waiters.locals(key)
		if got.Kind.Shared {
			i.Mode = Shared
		}
		for _, h := range got.Holders {
			i.Holders = append(i.Holders, Holder(h))
		}
		return err
	})
	return i, err
}

// ForceRelease takes the lock called key, the prefix included, from all who
// have it, and gives it to the next waiters. It is for operators: the former
// holder goes on until its next renewal tells it that the lock is lost (a third
// of its TTL at most), beside the next one. The next fence is higher than its
// own, so a resource that checks fences refuses its writes. A lock that is free
// stays free, without an error. The error Is ErrInvalidKey, ErrClosed or
// ErrUnavailable; ctx bounds it, and so does a second.
func (l *Locker) ForceRelease(ctx context.Context, key string) error {
	err := l.operate(ctx, "force release", key, func(ctx context.Context) error {
		return l.store.ForceRelease(ctx, key)
	})
	if err == nil {
		l.log.Warn("lockmw: lock was released by force", "key", key)
		l.renewNow(key) // our own lease of it is told at once
		l.waiters.askFirstAgain(key)
	}
	return err
}

// operate puts an operator's question about key to the store.
func (l *Locker) operate(ctx context.Context, what, key string, ask func(context.Context) error) error {
	if err := validateName(key); err != nil {
		return fmt.Errorf("lockmw: %s %q: %w", what, key, err)
	}
	if !l.enter() {
		return fmt.Errorf("lockmw: %s %q: %w", what, key, ErrClosed)
	}
	defer l.claims.Done()
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	if err := ask(ctx); err != nil {
		return fmt.Errorf("lockmw: %s %q: %w: %w", what, key, ErrUnavailable, store.AsError(err).Err)
	}
	return nil
}
