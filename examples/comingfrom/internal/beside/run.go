package beside

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Program does its work under the lock of a key.
type Program struct {
	Run     func(ctx context.Context, key string) error
	Refused error // what Run returns, or wraps, while others hold the lock
	Close   func(ctx context.Context) error
}

// A Side is a program that is to run beside another.
type Side struct {
	Name string
	Open func(addr string, work Work) (Program, error) // addr is that of a Redis
}

// On returns an Open for a program that uses a client of go-redis. The program is closed before its client, if
// it has a Close.
func On[P any](open func(client *redis.Client, work Work) (P, error), run func(p P, ctx context.Context, key string) error, refused error) func(addr string, work Work) (Program, error) {
	return func(addr string, work Work) (Program, error) {
		client := redis.NewClient(&redis.Options{Addr: addr})
		p, err := open(client, work)
		if err != nil {
			return Program{}, errors.Join(err, client.Close())
		}
		return Program{
			Run:     func(ctx context.Context, key string) error { return run(p, ctx, key) },
			Refused: refused,
			Close: func(ctx context.Context) error {
				var err error
				if closer, ok := any(p).(interface {
					Close(ctx context.Context) error
				}); ok {
					err = closer.Close(ctx)
				}
				return errors.Join(err, client.Close())
			},
		}, nil
	}
}

// A Load is how much the sides do.
type Load struct {
	Keys    int // how many locks there are
	Callers int // how many goroutines of each side want them
	Jobs    int // how much work each side does at least
}

// A Result is what became of a side.
type Result struct {
	Name    string
	Jobs    int // how often it has had a lock, and done its work
	Refused int // how often it was refused, because others had the lock
}

// Run opens the sides, and has them do their work side by side. When each has done enough, it closes them.
func (l *Ledger) Run(ctx context.Context, load Load, sides ...Side) (results []Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	programs := make([]Program, len(sides))
	refused := make([]atomic.Int64, len(sides))
	var callers sync.WaitGroup
	for i, side := range sides {
		if programs[i], err = side.Open(l.client.Options().Addr, l.Work(side.Name)); err != nil {
			cancel(err)
			programs = programs[:i]
			break
		}
		call := func() {
			err := programs[i].Run(ctx, l.Key(rand.IntN(load.Keys)))
			switch {
			case errors.Is(err, programs[i].Refused):
				refused[i].Add(1)
			case err != nil:
				cancel(fmt.Errorf("%s: %w", side.Name, err))
			}
		}
		for range load.Callers {
			callers.Go(func() {
				for !l.enough(load, sides) && ctx.Err() == nil {
					call()
					rest(ctx)
				}
			})
		}
	}
	callers.Wait()
	err = context.Cause(ctx)
	for i, program := range programs {
		results = append(results, Result{Name: sides[i].Name, Jobs: l.Jobs()[sides[i].Name], Refused: int(refused[i].Load())})
		err = errors.Join(err, program.Close(context.WithoutCancel(ctx)))
	}
	return results, err
}

// enough tells whether each side has done its work.
func (l *Ledger) enough(load Load, sides []Side) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, side := range sides {
		if l.jobs[side.Name] < load.Jobs {
			return false
		}
	}
	return true
}

// rest is the time from the end of a call to the next one. Without it those who wait in a queue
// would hand a lock on to each other, and those who poll would find it taken each time.
func rest(ctx context.Context) {
	select {
	case <-time.After(rand.N(2 * time.Millisecond)):
	case <-ctx.Done():
	}
}
