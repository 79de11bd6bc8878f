// Package counter counts in Redis, in two steps.
package counter

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// A Counter is a key of a Redis.
type Counter struct {
	Client *redis.Client
	Name   string
}

// Add reads the number, and writes it back with one more.
//
//lockmw:lock {c.Name} prefix=counter: wait=2m
func (c *Counter) Add(ctx context.Context) error {
	n, err := c.Client.Get(ctx, c.Name).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return c.Client.Set(ctx, c.Name, n+1, 0).Err()
}
