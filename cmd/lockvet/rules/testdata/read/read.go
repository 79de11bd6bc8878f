// Package read is what a reader has found: what was reported and is right, and what was not found.
package read

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/bsm/redislock"
	"github.com/gin-gonic/gin"
	"github.com/go-redsync/redsync/v4"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

var (
	locks  *lockmw.Locker
	policy lockmw.Policy
	client *redislock.Client
	sync   *redsync.Redsync
)

func work(context.Context) error { return nil }

func purge(ctx context.Context, db *sql.DB) {
	_, _ = fence.Postgres.Purge(ctx, db, 7*24*time.Hour)
	_, _ = fence.Postgres.Forget(ctx, db, "lock:{order:42}")
}

// lockctx: no lock is held.
func fallback(ctx context.Context, push func(context.Context) error) error {
	lockCtx, lease, err := locks.Acquire(ctx, "42", policy)
	if errors.Is(err, lockmw.ErrNotAcquired) {
		return push(ctx)
	}
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(lockCtx)
}

func spent(ctx context.Context) error {
	under, lease, err := locks.Resume(ctx, "a ticket", policy)
	if errors.Is(err, lockmw.ErrTicketSpent) {
		under, lease, err = locks.Acquire(ctx, "42", policy)
	}
	if err != nil {
		return err
	}
	defer lease.Release(under)
	return work(under)
}

// lockctx: the form of every net/http handler.
func handler(w http.ResponseWriter, r *http.Request) {
	lockCtx, lease, err := locks.Acquire(r.Context(), "42", policy)
	if err != nil {
		return
	}
	defer lease.Release(lockCtx)
	_ = work(r.Context())          // want `r.Context\(\) does not end when the lock is lost: use lockCtx`
	_ = work(context.Background()) // want `context.Background\(\) does not end when the lock is lost: use lockCtx`
}

func ginHandler(c *gin.Context) {
	_ = locks.WithLock(c.Request.Context(), "42", policy, func(ctx context.Context) error {
		if err := work(c); err != nil { // want `c does not end when the lock is lost`
			return err
		}
		return work(c.Request.Context()) // want `c.Request.Context\(\) does not end when the lock is lost`
	})
}

func worker(ctx context.Context, jobs <-chan string) {
	select {
	case j := <-jobs:
		lockCtx, lease, err := locks.Acquire(ctx, j, policy)
		if err != nil {
			return
		}
		defer lease.Release(lockCtx)
		_ = work(ctx) // want `ctx does not end when the lock is lost: use lockCtx`
	}
}

// lockrelease: the defer stands before the lock.
func conditional(ctx context.Context, needed bool) (err error) {
	var lease *lockmw.Lease
	defer func() { _ = lease.Release(ctx) }()
	if needed {
		if ctx, lease, err = locks.Acquire(ctx, "42", policy); err != nil {
			return err
		}
	}
	return work(ctx)
}

func failOpen(ctx context.Context) error {
	ctx, lease, err := locks.Acquire(ctx, "42", policy)
	if err != nil && !errors.Is(err, lockmw.ErrUnavailable) {
		return err
	}
	if lease != nil {
		defer lease.Release(ctx)
	}
	return work(ctx)
}

func polarity(ctx context.Context) error {
	ctx, lease, err := locks.Acquire(ctx, "42", policy)
	acquired := err == nil
	if !acquired {
		return nil
	}
	defer lease.Release(ctx)
	return work(ctx)
}

func tagged(ctx context.Context) error {
	lock, err := client.Obtain(ctx, "42", time.Second, nil)
	switch err {
	case nil:
	case redislock.ErrNotObtained:
		return nil
	default:
		return err
	}
	defer lock.Release(ctx)
	return work(ctx)
}

type held struct{ m *redsync.Mutex }

func (h *held) lock(ctx context.Context) error {
	m := sync.NewMutex("42")
	h.m = m
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	return nil
}

// lockgo: the way that its own doc recommends.
func handedOn(ctx context.Context, finish func(string)) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		lease, _ := lockmw.FromContext(ctx)
		go finish(lease.Ticket(time.Minute))
		return nil
	})
}

// lockroute
func routes(r *gin.Engine, health, pay gin.HandlerFunc) {
	r.GET("/healthz", health)
	r.Use(ginlock.Middleware(locks, keyfunc.MustParse("{param.id}"), policy))
	r.POST("/orders/:id/pay", pay)
	lock := ginlock.Middleware(locks, keyfunc.MustParse("{param.id}"), policy)
	r.POST("/orders/:id/ship", pay, lock) // want `the lock stands behind the handler`
}

// lockpolicy: derived from, as Tune of funclock does
func derived(wait time.Duration) lockmw.Policy {
	p := lockmw.Policy{Prefix: "order:", AsyncRelease: true}
	p.Wait = wait
	return p
}

func inAnIf(ctx context.Context) {
	if lockCtx, lease, err := locks.Acquire(ctx, "42", policy); err == nil {
		_ = work(ctx) // want `ctx does not end when the lock is lost: use lockCtx`
		_ = lease.Release(lockCtx)
	}
}

func inAnIfWithoutTheLock(ctx context.Context) {
	if _, lease, err := locks.Acquire(ctx, "42", policy); err != nil {
		_ = work(ctx)
	} else {
		_ = work(ctx) // want `ctx does not end when the lock is lost`
		_ = lease.Release(ctx)
	}
	if _, lease, err := locks.Acquire(ctx, "42", policy); errors.Is(err, lockmw.ErrNotAcquired) {
		_ = work(ctx)
	} else if err == nil {
		_ = lease.Release(ctx)
	}
}

func twoValues(r *gin.Engine, pay gin.HandlerFunc, locked bool) {
	last := gin.Logger()
	if locked {
		last = ginlock.Middleware(locks, keyfunc.MustParse("{param.id}"), policy)
	}
	r.POST("/orders/:id/pay", pay, last) // nobody knows which one it is
}

func readsValues(ctx context.Context, tenant func(context.Context) string) error {
	return locks.WithLock(ctx, "42", policy, func(lockCtx context.Context) error {
		_ = tenant(ctx)
		return work(lockCtx)
	})
}

func leads(ctx context.Context, leader *lockmw.Leader, srv *http.Server) error {
	return leader.Run(ctx, func(lead context.Context) error {
		go func() { _ = srv.ListenAndServe() }()
		<-lead.Done()
		last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return srv.Shutdown(last)
	})
}

func heartbeat(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		go func() {
			for {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return
				}
			}
		}()
		return work(ctx)
	})
}

func negative() lockmw.Policy {
	return lockmw.Policy{Wait: -time.Second} // want `Wait is negative: -1s`
}

func named(prefix string) lockmw.Policy {
	return lockmw.Policy{Prefix: prefix, MinHold: 2 * time.Second, MaxHold: time.Second} // want `the policy is refused when the program runs`
}
