package library

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/store"
)

// byScripts takes free locks by the script that otherwise decides who has a lock
// that is not free. It is for comparing what the two ways cost Redis: it asks the
// store without the engine, so nothing is renewed and nobody waits.
type byScripts struct {
	client *redis.Client
	store  *redisstore.Store
}

func openByScripts(client *redis.Client) (Locker, error) {
	s, err := redisstore.New(client, "lock", "bench")
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &byScripts{client: client, store: s}, nil
}

func (b *byScripts) Lock(ctx context.Context, key string) (func() error, error) {
	ref := store.Ref{Key: key, Token: b.store.NewToken(""), TTL: ttl}
	// Again has the script asked at once: the key is probably taken, it says.
	answer, err := b.store.Acquire(ctx, store.Request{Ref: ref, Again: true})
	if err == nil && !answer.Granted {
		err = errors.New("the lock is taken, and this does not wait for it")
	}
	if err != nil {
		return nil, err
	}
	ref.Fence = answer.Fence
	return func() error {
		did, _, err := b.store.Release(context.WithoutCancel(ctx), store.Give{Ref: ref})
		if err == nil && did != store.Freed {
			err = fmt.Errorf("%w: %v", errNotHeld, did)
		}
		return err
	}, nil
}

func (b *byScripts) Close() error { return errors.Join(b.store.Close(), b.client.Close()) }
