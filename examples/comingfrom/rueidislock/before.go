package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// wait is how long a caller waits for the rebuild of somebody else.
const wait = time.Second

// patience is how long an attempt may take. After 20 ms, the default, rueidislock gives an attempt up and waits for
// a change of the key: if the lock was free, and only the machine busy, there is none.
const patience = wait

// before rebuilds the search indices of tenants, one rebuild of an index at a time, under a lock of
// rueidislock.
type before struct {
	locks   rueidislock.Locker
	name    string // what is locked, with %s for the tenant
	rebuild func(ctx context.Context, tenant string) error
}

// newBefore returns a program that uses one key for each lock, as rueidislock recommends for one Redis.
func newBefore(addr string, rebuild func(ctx context.Context, tenant string) error) (*before, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:  1,
		TryNextAfter: patience,
	})
	// The braces are all that has to change while both versions run: it was "index:%s". The key in Redis
	// is "rueidislock:0:{index:<tenant>}".
	return &before{locks: locks, name: "{index:%s}", rebuild: rebuild}, err
}

// Rebuild rebuilds the index of a tenant. It returns errBusy if another rebuild takes too long.
func (b *before) Rebuild(ctx context.Context, tenant string) error {
	// A context with a timeout would end the work, too: what WithContext returns is made of it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	giveUp := time.AfterFunc(wait, cancel)
	work, release, err := b.locks.WithContext(ctx, fmt.Sprintf(b.name, tenant))
	giveUp.Stop()
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return errBusy // or Redis was away: WithContext does not tell
	case err != nil:
		return fmt.Errorf("lock tenant %s: %w", tenant, err)
	}
	defer release()
	return b.rebuild(work, tenant)
}

// Close ends the locks.
func (b *before) Close() { b.locks.Close() }
