package engines

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

type ours struct {
	client *redis.Client
	locks  *lockmw.Locker
}

func openOurs(addr string) (Engine, error) {
	c := client(addr)
	locks, err := lockmw.New(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &ours{client: c, locks: locks}, nil
}

func (e *ours) Acquire(ctx context.Context, ask Ask) (Hold, error) {
	p := lockmw.Policy{TTL: ask.TTL, Wait: ask.Wait, Permits: ask.Permits}
	if ask.Shared {
		p.Mode = lockmw.Shared
	}
	lease, err := e.locks.Acquire(ctx, ask.Key, p)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

func (e *ours) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return errors.Join(e.locks.Close(ctx), e.client.Close())
}
