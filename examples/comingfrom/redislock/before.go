package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// ttl is how long a crashed process blocks an import.
const ttl = 30 * time.Second

// before imports the catalogues of shops under a lock of redislock. One import of a shop is enough: who
// comes while it is going on does not wait.
type before struct {
	locks *redislock.Client
	load  func(ctx context.Context, shop string) error
}

func newBefore(client *redis.Client, load func(ctx context.Context, shop string) error) *before {
	return &before{locks: redislock.New(client), load: load}
}

// Import imports the catalogue of a shop. It returns errBusy if that is being done already.
func (b *before) Import(ctx context.Context, shop string) error {
	// The name is all that has to change while both versions run: it was "import:" + shop.
	lock, err := b.locks.Obtain(ctx, "lock:{import:"+shop+"}", ttl, nil)
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return errBusy
	case err != nil:
		return fmt.Errorf("lock shop %s: %w", shop, err)
	}
	work, cancel := context.WithCancelCause(ctx)
	var refreshing sync.WaitGroup
	refreshing.Go(func() { cancel(refresh(work, lock)) })
	defer func() {
		cancel(nil)
		refreshing.Wait()
		// Without a new context, the lock would stay for 30 seconds if ctx has ended.
		if err := lock.Release(context.WithoutCancel(ctx)); err != nil {
			log.Printf("import of %s: the lock was lost: %v", shop, err)
		}
	}()
	return b.load(work, shop)
}

// refresh extends a lock until the work is done, or the lock is lost.
func refresh(ctx context.Context, lock *redislock.Lock) error {
	ticker := time.NewTicker(ttl / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := lock.Refresh(ctx, ttl, nil); err != nil {
				return err // also where Redis was away for a moment
			}
		}
	}
}
