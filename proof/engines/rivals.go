package engines

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// pause is between two tries of a rival that polls.
const pause = 20 * time.Millisecond

type viaRedislock struct {
	client *redis.Client
	locks  *redislock.Client
}

func openRedislock(addr string) Engine {
	c := client(addr)
	return &viaRedislock{client: c, locks: redislock.New(c)}
}

func (e *viaRedislock) Acquire(ctx context.Context, ask Ask) (Hold, error) {
	waiting, cancel := context.WithTimeout(ctx, ask.Wait)
	defer cancel()
	lock, err := e.locks.Obtain(waiting, ask.Key, ask.TTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)})
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	w := watch(ctx, ask.TTL, func(ctx context.Context) error { return lock.Refresh(ctx, ask.TTL, nil) })
	w.release = lock.Release
	return w, nil
}

func (e *viaRedislock) Close() error { return e.client.Close() }

type viaRedsync struct {
	client *redis.Client
	locks  *redsync.Redsync
}

func openRedsync(addr string) Engine {
	c := client(addr)
	return &viaRedsync{client: c, locks: redsync.New(goredis.NewPool(c))}
}

func (e *viaRedsync) Acquire(ctx context.Context, ask Ask) (Hold, error) {
	mutex := e.locks.NewMutex(ask.Key,
		redsync.WithExpiry(ask.TTL), redsync.WithTries(1+int(ask.Wait/pause)), redsync.WithRetryDelay(pause))
	err := mutex.LockContext(ctx)
	if _, taken := errors.AsType[*redsync.ErrTaken](err); taken || errors.Is(err, redsync.ErrFailed) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	w := watch(ctx, ask.TTL, func(ctx context.Context) error {
		if ok, err := mutex.ExtendContext(ctx); !ok || err != nil {
			return errors.Join(errTaken, err)
		}
		return nil
	})
	// The loop writes it and the worker asks for it only after the loop's end.
	w.until = func() time.Time {
		w.cancel()
		w.stopped.Wait()
		return mutex.Until()
	}
	w.release = func(ctx context.Context) error {
		if ok, err := mutex.UnlockContext(ctx); !ok || err != nil {
			return errors.Join(errors.New("engines: not unlocked"), err)
		}
		return nil
	}
	return w, nil
}

func (e *viaRedsync) Close() error { return e.client.Close() }

type viaRueidislock struct{ locks rueidislock.Locker }

func openRueidislock(addr string, ttl time.Duration) (Engine, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    ttl,
	})
	if err != nil {
		return nil, err
	}
	return viaRueidislock{locks}, nil
}

func (e viaRueidislock) Acquire(ctx context.Context, ask Ask) (Hold, error) {
	waiting, stop := context.WithCancel(ctx)
	limit := time.AfterFunc(ask.Wait, stop) // WithContext waits as long as its context lives, and so does the lock
	held, release, err := e.locks.WithContext(waiting, ask.Key)
	if !limit.Stop() && err == nil {
		release()
		err = errTaken
	}
	if err != nil {
		stop()
		return nil, err
	}
	return &rueidisHold{ctx: held, release: func() { release(); stop() }}, nil
}

func (e viaRueidislock) Close() error {
	e.locks.Close()
	return nil
}

type rueidisHold struct {
	ctx     context.Context
	release func()
}

func (h *rueidisHold) Context() context.Context      { return h.ctx }
func (*rueidisHold) ValidUntil() time.Time           { return time.Time{} }
func (*rueidisHold) Fence() int64                    { return 0 }
func (h *rueidisHold) Release(context.Context) error { h.release(); return nil }
