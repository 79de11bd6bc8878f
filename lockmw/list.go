package lockmw

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/lockmw/kit/internal/store"
)

// listAtOnce is how many locks List looks at at the same time.
const listAtOnce = 32

// List tells of all locks whose keys, the prefix included, begin with prefix, as Inspect
// does: who has them, and how many wait. The empty prefix is that of all. They come in no
// order, each once; one that comes or goes meanwhile may be missing. It is for operators:
// Redis looks at all its keys for it, a thousand in each step (SCAN), so that no other
// command waits for long.
//
// After an error, which is the last that comes, there is no more. A master of a Cluster
// that is away hides its own locks alone: the error comes after those of the others. It Is ErrClosed or
// ErrUnavailable, or what ended ctx. Several Lists may run at the same time. Close ends one
// that is under way; it does not wait for what the caller's loop does with a lock.
func (l *Locker) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		counted := l.enter(prefix)
		if counted == nil {
			yield(Info{}, fmt.Errorf("lockmw: list: %w", ErrClosed))
			return
		}
		defer func() {
			if counted != nil {
				counted.claims.Done()
			}
		}()
		ctx, end := l.untilClosed(ctx)
		defer end()
		// The caller's loop may stand still, or call Close itself: it is not counted in.
		told := func(info Info, err error) bool {
			counted.claims.Done()
			counted = nil
			if !yield(info, err) || err != nil {
				return false
			}
			if counted = l.enter(prefix); counted == nil {
				yield(Info{}, fmt.Errorf("lockmw: list: %w", ErrClosed))
			}
			return counted != nil
		}
		seen, wanted := make(map[string]struct{}), true
		err := l.store.Names(ctx, prefix, func(names []string) bool {
			var unseen []string
			for _, name := range names {
				if _, twice := seen[name]; !twice {
					seen[name] = struct{}{}
					unseen = append(unseen, name)
				}
			}
			for len(unseen) > 0 && wanted {
				n := min(listAtOnce, len(unseen))
				wanted = l.listSome(ctx, unseen[:n], told)
				unseen = unseen[n:]
			}
			return wanted
		})
		if err != nil && wanted {
			told(Info{}, notListed(ctx, err))
		}
	}
}

// untilClosed returns a context that ends with ctx, and with ErrClosed when Close begins.
func (l *Locker) untilClosed(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-l.closing:
			cancel(ErrClosed)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}

// notListed is what List says of an error of the store.
func notListed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("lockmw: list: %w", context.Cause(ctx))
	}
	return fmt.Errorf("lockmw: list: %w: %w", ErrUnavailable, store.AsError(err).Err)
}

// listSome yields what Inspect tells of some locks, and reports whether more is wanted.
func (l *Locker) listSome(ctx context.Context, names []string, yield func(Info, error) bool) bool {
	infos, errs := make([]Info, len(names)), make([]error, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
			defer cancel()
			infos[i], errs[i] = l.inspect(ctx, name)
		})
	}
	asking.Wait()
	for i, info := range infos {
		switch {
		case errs[i] != nil && store.AsError(errs[i]).Foreign: // what lies there is no lock
		case errs[i] != nil:
			yield(Info{}, notListed(ctx, errs[i]))
			return false
		case !info.Held && info.Waiting == 0: // it was given back meanwhile
		case !yield(info, nil):
			return false
		}
	}
	return true
}
