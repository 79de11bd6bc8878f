// Package interop checks that a mutex of this library and one of another that
// follows the same convention (SET key token NX PX, compare-and-delete)
// exclude each other on one key.
package interop

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A foreign library tries to take a lock, and gives it back.
type foreign interface {
	take(t *testing.T, key string) (release func(), ok bool)
}

type viaRedislock struct{ *redislock.Client }

func (f viaRedislock) take(t *testing.T, key string) (func(), bool) {
	t.Helper()
	lock, err := f.Obtain(context.Background(), key, 10*time.Second, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := lock.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}, true
}

type viaRedsync struct{ *redsync.Redsync }

func (f viaRedsync) take(t *testing.T, key string) (func(), bool) {
	t.Helper()
	mutex := f.NewMutex(key, redsync.WithExpiry(10*time.Second), redsync.WithTries(1))
	err := mutex.Lock()
	if _, taken := errors.AsType[*redsync.ErrTaken](err); taken {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if ok, err := mutex.Unlock(); !ok || err != nil {
			t.Errorf("unlock: %v, %v", ok, err)
		}
	}, true
}

func TestForeignLibrariesAndWeExcludeEachOther(t *testing.T) {
	for name, open := range map[string]func(*redis.Client) foreign{
		"redislock": func(c *redis.Client) foreign { return viaRedislock{redislock.New(c)} },
		"redsync":   func(c *redis.Client) foreign { return viaRedsync{redsync.New(goredis.NewPool(c))} },
	} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Shared(t).Client(t)
			them := open(client)
			us, err := lockmw.New(client)
			if err != nil {
				t.Fatal(err)
			}
			defer us.Close(context.Background())
			ctx, name := context.Background(), redistest.Prefix(t)
			key := "lock:{" + name + "}" // as it lies in Redis

			_, lease, err := us.Acquire(ctx, name, lockmw.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := them.take(t, key); ok {
				t.Fatal("they took the lock that we hold")
			}
			if err := lease.Release(ctx); err != nil {
				t.Fatal(err)
			}

			release, ok := them.take(t, key)
			if !ok {
				t.Fatal("they cannot take a lock that is free")
			}
			if _, _, err := us.Acquire(ctx, name, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
				t.Fatalf("while they hold it: %v", err)
			}

			got := make(chan error, 1) // waits until they release, which tells nobody
			go func() {
				_, lease, err := us.Acquire(ctx, name, lockmw.Policy{Wait: 10 * time.Second, RetryInterval: 20 * time.Millisecond})
				if err == nil {
					err = lease.Release(ctx)
				}
				got <- err
			}()
			queue := func() int64 { return client.ZCard(ctx, key+":queue").Val() }
			for deadline := time.Now().Add(5 * time.Second); queue() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("our waiter does not stand in the queue")
				}
			}
			release()
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	}
}
