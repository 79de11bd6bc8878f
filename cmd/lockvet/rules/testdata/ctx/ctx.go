package ctx

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/lockmw/kit/lockmw"
)

var (
	locks  *lockmw.Locker
	policy lockmw.Policy
)

func save(context.Context, string) error { return nil }

type repo struct{}

func (repo) save(ctx context.Context, what string) error { return save(ctx, what) }

func outer(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(lockCtx context.Context) error {
		if err := save(ctx, "a"); err != nil { // want `ctx does not end when the lock is lost: use the context of the function`
			return err
		}
		return repo{}.save(ctx, "b") // want `ctx does not end when the lock is lost`
	})
}

func unnamed(ctx context.Context) error {
	return locks.WithLocks(ctx, []string{"42"}, policy, func(context.Context) error {
		return save(ctx, "a") // want `ctx does not end when the lock is lost`
	})
}

func request(w http.ResponseWriter, r *http.Request) {
	_, err := locks.Once(r.Context(), "42", policy, func(ctx context.Context) error {
		return save(r.Context(), "a") // want `r.Context\(\) does not end when the lock is lost`
	})
	_ = err
}

func background(ctx context.Context) error {
	_, _, err := lockmw.Do(ctx, locks, "42", lockmw.Flight{}, func(ctx context.Context) (string, error) {
		if err := save(context.TODO(), "a"); err != nil { // want `context.TODO\(\) does not end`
			return "", err
		}
		return "", save(context.Background(), "a") // want `context.Background\(\) does not end when the lock is lost`
	})
	return err
}

func leads(ctx context.Context, leader *lockmw.Leader) error {
	return leader.Run(ctx, func(lead context.Context) error {
		return save(ctx, "a") // want `ctx does not end when the lock is lost`
	})
}

func nested(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(one context.Context) error {
		return locks.WithLock(one, "43", policy, func(two context.Context) error {
			return save(one, "a") // want `one does not end when the lock is lost`
		})
	})
}

func acquired(ctx context.Context) error {
	lockCtx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	if err := save(lockCtx, "a"); err != nil {
		return err
	}
	return save(ctx, "b") // want `ctx does not end when the lock is lost: use lockCtx`
}

func dropped(ctx context.Context) error {
	_, lease, err := locks.Resume(ctx, "a ticket", policy)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return save(ctx, "b") // want `ctx does not end when the lock is lost: use the context that Resume returns`
}

func inCase(ctx context.Context, what int) error {
	switch what {
	case 1:
		_, lease, err := locks.AcquireAll(ctx, []string{"42"}, policy)
		if err != nil {
			return err
		}
		defer lease.Release(ctx)
		return save(ctx, "b") // want `use the context that AcquireAll returns`
	}
	return nil
}

// From here on all is well.

func right(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return save(ctx, "a")
	})
}

func finished(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(lockCtx context.Context) error {
		slog.InfoContext(ctx, "begins")
		defer save(context.Background(), "it ended") // also when the lock is lost
		rest := context.WithoutCancel(lockCtx)
		if err := save(rest, "a"); err != nil {
			return err
		}
		_, inner, err := locks.Acquire(lockCtx, "43", policy)
		if err != nil {
			return err
		}
		return inner.Release(ctx)
	})
}

func requestOfItsOwn(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://shop.test", nil)
		if err != nil {
			return err
		}
		return save(r.Context(), "a")
	})
}

func sameName(ctx context.Context) error {
	ctx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return save(ctx, "a")
}

func before(ctx context.Context) error {
	lockCtx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil {
		return err
	}
	if err := save(lockCtx, "a"); err != nil {
		lease.Release(ctx)
		return err
	}
	if err := lease.Release(ctx); err != nil {
		return err
	}
	return save(ctx, "it is done") // without the lock
}

func named(ctx context.Context, f func(context.Context) error) error {
	return locks.WithLock(ctx, "42", policy, f)
}

func check(ctx context.Context, err error) error { return err }

func passedOn(ctx context.Context) (*lockmw.Lease, error) { // want passedOn:`result 0, with .Release, if result 1 says so`
	_, lease, err := locks.Acquire(ctx, "42", policy)
	return lease, check(ctx, err)
}
