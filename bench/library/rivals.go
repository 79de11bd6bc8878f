package library

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// viaRedislock is github.com/bsm/redislock with a linear back-off.
type viaRedislock struct {
	client *redis.Client
	locks  *redislock.Client
}

func openRedislock(client *redis.Client) Locker {
	return &viaRedislock{client: client, locks: redislock.New(client)}
}

func (v *viaRedislock) Lock(ctx context.Context, key string) (func() error, error) {
	// A strategy of its own for each lock: some of them count.
	lock, err := v.locks.Obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)})
	if err != nil {
		return nil, err
	}
	return func() error { return lock.Release(context.WithoutCancel(ctx)) }, nil
}

func (v *viaRedislock) Close() error { return v.client.Close() }

// viaRedsync is github.com/go-redsync/redsync over one node.
type viaRedsync struct {
	client *redis.Client
	locks  *redsync.Redsync
}

func openRedsync(client *redis.Client) Locker {
	return &viaRedsync{client: client, locks: redsync.New(goredis.NewPool(client))}
}

func (v *viaRedsync) Lock(ctx context.Context, key string) (func() error, error) {
	mutex := v.locks.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithRetryDelay(pause), redsync.WithTries(math.MaxInt32))
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		ok, err := mutex.UnlockContext(context.WithoutCancel(ctx))
		if err == nil && !ok {
			err = errNotHeld
		}
		return err
	}, nil
}

func (v *viaRedsync) Close() error { return v.client.Close() }

var errNotHeld = errors.New("the lock was not held any more")

// openPiped returns a rival over a client that has the commands of many goroutines share a write.
func openPiped(name string, client *redis.Client) (Locker, error) {
	piped, err := client.AutoPipelineWithOptions(pipeOptions(name))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	if name == RedsyncPiped {
		return &viaRedsync{client: client, locks: redsync.New(goredis.NewPool(piped))}, nil
	}
	return &viaRedislock{client: client, locks: redislock.New(piped)}, nil
}

// pipeOptions are go-redis's own, as AutoPipeline takes them.
func pipeOptions(name string) *redis.AutoPipelineOptions {
	o := redis.DefaultBlockingAutoPipelineOptions()
	if name == RedislockDuplex {
		o.FullDuplex = true
	}
	return o
}

// viaRueidis is rueidislock on one key instead of three, the nearest to what
// the others promise.
type viaRueidis struct{ locks rueidislock.Locker }

func openRueidis(addr string, wire *Wire) (Locker, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}, DialCtxFn: wire.dialRueidis},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    ttl,
		ExtendInterval: ttl / 3, // as ours renews
	})
	if err != nil {
		return nil, err
	}
	return &viaRueidis{locks: locks}, nil
}

func (v *viaRueidis) Lock(ctx context.Context, key string) (func() error, error) {
	_, cancel, err := v.locks.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return func() error {
		cancel() // waits for Redis's answer, and tells nobody
		return nil
	}, nil
}

func (v *viaRueidis) Close() error {
	v.locks.Close()
	return nil
}

// raw is the floor: what a lock without any promises costs.
type raw struct{ client *redis.Client }

var compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func (r *raw) Lock(ctx context.Context, key string) (func() error, error) {
	const token = "token" // making one is not part of the floor
	for {
		ok, err := r.client.SetNX(ctx, key, token, ttl).Result()
		if err != nil {
			return nil, err
		}
		if ok {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() error {
		return compareAndDelete.Run(context.WithoutCancel(ctx), r.client, []string{key}, token).Err()
	}, nil
}

func (r *raw) Close() error { return r.client.Close() }
