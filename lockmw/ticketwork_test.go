package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Whatever runs work under a lock hands the lock on to the work's ticket if the work has succeeded, and gives it back if the work has failed.
func TestWhatRunsWorkHandsItsLockOnIfItSucceeds(t *testing.T) {
	type work = func(ctx context.Context) error
	fails := errors.New("it fails")
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		wrapped := lockmw.Wrap(l, func(work) (string, error) { return key, nil }, lockmw.Policy{}, func(ctx context.Context, do work) (int, error) { return 7, do(ctx) })
		for name, run := range map[string]func(do work) error{
			"Locker.WithLock": func(do work) error { return l.WithLock(context.Background(), key, lockmw.Policy{}, do) },
			"WithLock": func(do work) error {
				_, err := lockmw.WithLock(context.Background(), l, key, lockmw.Policy{}, func(ctx context.Context) (int, error) { return 7, do(ctx) })
				return err
			},
			"Wrap": func(do work) error { _, err := wrapped(context.Background(), do); return err },
			"Once": func(do work) error {
				ran, err := l.Once(context.Background(), key, lockmw.Policy{}, do)
				if !ran {
					t.Error("Once runs nothing")
				}
				return err
			},
		} {
			var ticket string
			ends := func(end func() error) (err error) {
				defer func() { _ = recover() }()
				return run(func(ctx context.Context) error {
					lease, _ := lockmw.FromContext(ctx)
					ticket = lease.Ticket(time.Minute)
					return end()
				})
			}
			if err := ends(func() error { return nil }); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			handedOn(t, l, key)
			mustRelease(t, mustResume(t, l, ticket, lockmw.Policy{}))
			for how, end := range map[string]func() error{"an error": func() error { return fails }, "a panic": func() error { panic(fails) }} {
				if err := ends(end); err != nil && !errors.Is(err, fails) {
					t.Errorf("%s, %s: %v", name, how, err)
				}
				noKeys(t, c, key, 0)
				isSpent(t, l, ticket, name+", "+how)
			}
		}
	})
}
