// Package locks has functions that take locks for those who call them.
package locks

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"

	"github.com/lockmw/kit/lockmw"
)

type Locks struct {
	client *redislock.Client
	sync   *redsync.Redsync
	own    *lockmw.Locker
	held   map[string]*redislock.Lock
	shared map[string]*redsync.Mutex
}

type State struct{ Open bool }

func (l *Locks) state(id string) *State { return &State{id != ""} }

func (l *Locks) Order(ctx context.Context, id string) (*redislock.Lock, error) { // want Order:`result 0, with .Release, if result 1 says so`
	return l.client.Obtain(ctx, "order:"+id, time.Second, nil)
}

func (l *Locks) OrderAgain(ctx context.Context, id string) (lock *redislock.Lock, err error) { // want OrderAgain:`result 0, with .Release, if result 1 says so`
	for range 3 {
		if lock, err = l.Order(ctx, id); err == nil {
			return
		}
	}
	return nil, errors.New("taken")
}

func (l *Locks) OrderOrNil(ctx context.Context, id string) *redislock.Lock { // want OrderOrNil:`result 0, with .Release$`
	lock, err := l.Order(ctx, id)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil
	} else if err != nil {
		return nil
	}
	return lock
}

func (l *Locks) OrderAndState(ctx context.Context, id string) (*redislock.Lock, *State) { // want OrderAndState:`result 0, with .Release$`
	lock := l.OrderOrNil(ctx, id)
	if lock == nil {
		return nil, nil
	}
	return lock, l.state(id)
}

func (l *Locks) OrderUnlessKnown(ctx context.Context, id string) (*State, *redislock.Lock) { // want OrderUnlessKnown:`result 1, with .Release$`
	if state := l.state(id); state.Open {
		return state, nil
	}
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil, nil
	}
	return nil, lock
}

func (l *Locks) OrderIfOpen(ctx context.Context, id string) (*redislock.Lock, bool, error) { // want OrderIfOpen:`result 0, with .Release, if result 2 says so`
	if !l.state(id).Open {
		return nil, false, nil
	}
	lock, err := l.Order(ctx, id)
	return lock, err == nil, err
}

func (l *Locks) TryOrder(ctx context.Context, id string) (*redislock.Lock, bool) { // want TryOrder:`result 0, with .Release, if result 1 says so`
	lock, err := l.client.Obtain(ctx, "order:"+id, time.Second, nil)
	if err != nil {
		return nil, false
	}
	return lock, true
}

func (l *Locks) Mutex(id string) (*redsync.Mutex, error) { // want Mutex:`result 0, with .Unlock, if result 1 says so`
	mutex := l.sync.NewMutex(id)
	return mutex, mutex.Lock()
}

func (l *Locks) MutexInTime(ctx context.Context, id string) (*redsync.Mutex, error) { // want MutexInTime:`result 0, with .Unlock, if result 1 says so`
	mutex := l.sync.NewMutex(id)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		_, _ = mutex.Unlock()
		return nil, ctx.Err()
	}
	return mutex, nil
}

func (l *Locks) Lease(ctx context.Context, id string) (context.Context, *lockmw.Lease, error) { // want Lease:`result 1, with .Release, if result 2 says so`
	return l.own.Acquire(ctx, id, lockmw.Policy{Prefix: "order:"})
}

func (l *Locks) Unlockable(id string) (Unlockable, error) { // want Unlockable:`result 0, with .UnlockContext, if result 1 says so`
	mutex := l.sync.NewMutex(id)
	if err := mutex.Lock(); err != nil {
		return nil, err
	}
	return mutex, nil
}

// An Unlockable is a mutex.
type Unlockable interface {
	UnlockContext(ctx context.Context) (bool, error)
}

// A Guard has a lock within.
type Guard struct {
	lock  *redislock.Lock
	since time.Time
}

func (g *Guard) Release(ctx context.Context) error { return g.lock.Release(ctx) }

func (g *Guard) Age() time.Duration { return time.Since(g.since) }

func (l *Locks) Guard(ctx context.Context, id string) (*Guard, error) { // want Guard:`result 0, with .Release, if result 1 says so`
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Guard{lock: lock, since: time.Now()}, nil
}

func (l *Locks) GuardOf(ctx context.Context, id string) (*Guard, error) { // want GuardOf:`result 0, with .Release, if result 1 says so`
	guard := &Guard{}
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil, err
	}
	guard.lock, guard.since = nil, time.Now()
	guard.lock = lock
	return guard, nil
}

// A Releaser is all that callers see of a lock.
type Releaser interface {
	Release(ctx context.Context) error
}

func guard(lock *redislock.Lock, since time.Time) Releaser { // want guard:`carries the lock of parameter 0`
	return &Guard{lock, since}
}

// A Store is what callers see of the locks.
type Store interface {
	Releaser(ctx context.Context, id string) Releaser // want Releaser:`result 0, with .Release$`
	State(id string) *State
}

func (l *Locks) State(id string) *State { return l.state(id) }

func (l *Locks) Releaser(ctx context.Context, id string) Releaser { // want Releaser:`result 0, with .Release$`
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil
	}
	return guard(lock, time.Now())
}

// An Unlock releases a lock.
type Unlock func()

func (l *Locks) Unlocker(ctx context.Context, id string) (Unlock, error) { // want Unlocker:`result 0, with \(\), if result 1 says so`
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil, err
	}
	unlock := func() { _ = lock.Release(ctx) }
	return unlock, nil
}

func (l *Locks) MutexUnlocker(id string) (func() (bool, error), error) { // want MutexUnlocker:`result 0, with \(\), if result 1 says so`
	mutex := l.sync.NewMutex(id)
	if err := mutex.Lock(); err != nil {
		return nil, err
	}
	return mutex.Unlock, nil
}

// An Order is locked.
type Order struct {
	ID   string
	Lock *redislock.Lock
}

func (l *Locks) Locked(ctx context.Context, id string) (Order, error) { // want Locked:`result 0, with .Lock.Release, if result 1 says so`
	lock, err := l.Order(ctx, id)
	if err != nil {
		return Order{}, err
	}
	return Order{ID: id, Lock: lock}, nil
}

// From here on nobody has a duty to release what is returned.

func (l *Locks) Kept(ctx context.Context, id string) (*redislock.Lock, error) {
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil, err
	}
	l.held[id] = lock
	return lock, nil
}

func (l *Locks) KeptIfOpen(ctx context.Context, id string) (*redislock.Lock, error) {
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil, err
	}
	if l.state(id).Open {
		l.held[id] = lock
	}
	return lock, nil
}

func (l *Locks) KeptInside(ctx context.Context, id string, guards map[string]*Guard) (*redislock.Lock, error) {
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil, err
	}
	g := &Guard{lock: lock}
	guards[id] = g
	return lock, nil
}

func (l *Locks) ReleasedOnError(ctx context.Context, id string) (_ *redislock.Lock, err error) {
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Release(ctx)
		}
	}()
	return lock, ctx.Err()
}

func (l *Locks) Held(id string) (*redislock.Lock, error) {
	if lock, ok := l.held[id]; ok {
		return lock, nil
	}
	return nil, errors.New("not held")
}

func (l *Locks) HeldOrNew(ctx context.Context, id string) (*redislock.Lock, error) {
	if lock, ok := l.held[id]; ok {
		return lock, nil
	}
	return l.Order(ctx, id)
}

func (l *Locks) ReleasedWithContext(ctx context.Context, id string) (*redislock.Lock, error) {
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = lock.Release(context.WithoutCancel(ctx)) })
	return lock, nil
}

func (l *Locks) Shared(id string) (*redsync.Mutex, error) {
	mutex := l.shared[id]
	return mutex, mutex.Lock()
}

func (l *Locks) Unlocked(id string) *redsync.Mutex {
	return l.sync.NewMutex(id)
}

func (l *Locks) Watched(ctx context.Context, id string) (*Guard, error) {
	lock, err := l.Order(ctx, id)
	if err != nil {
		return nil, err
	}
	g := &Guard{lock: lock}
	go func() {
		<-ctx.Done()
		_ = g.Release(context.WithoutCancel(ctx))
	}()
	return g, nil
}

func (l *Locks) Token(ctx context.Context, id string) (string, error) {
	lock, err := l.Order(ctx, id)
	if err != nil {
		return "", err
	}
	defer lock.Release(ctx)
	return lock.Token(), nil
}

// A Cache is read by some and locked by others.
type Cache interface {
	Entry(ctx context.Context, id string) *redislock.Lock
}

type lockingCache struct{ locks *Locks }

func (c lockingCache) Entry(ctx context.Context, id string) *redislock.Lock { // want Entry:`result 0, with .Release$`
	return c.locks.OrderOrNil(ctx, id)
}

type readingCache struct{ locks *Locks }

func (c readingCache) Entry(ctx context.Context, id string) *redislock.Lock { return c.locks.held[id] }
