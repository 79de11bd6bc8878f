package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"github.com/lockmw/kit/lockmw"
)

// How soon a crowd has its answer: callers of one key, in several Lockers with a client each, as processes have them, ask at the same time.

const (
	crowdLockers = 4
	crowdCallers = 1000
	crowdWork    = 20 * time.Millisecond
)

// A maker gives the answer for a key, and calls work if it is not there.
type maker func(ctx context.Context, key string, work func(context.Context) (string, error)) (string, error)

// crowds are the ways, by their names; each gets a client of its own for each process.
var crowds = []struct {
	name string
	of   func(client *redis.Client) (maker, func(), error)
}{
	{"lockmw.Do", byDo},
	{"by hand over lockmw", byWithLock},
	{"by hand over redislock", byRedislock},
	{"singleflight, each process for itself", bySingleflight},
}

func byDo(client *redis.Client) (maker, func(), error) {
	locks, err := lockmw.New(client)
	if err != nil {
		return nil, nil, err
	}
	f := lockmw.Flight{Policy: lockmw.Policy{Wait: time.Minute}, Retain: time.Minute}
	return func(ctx context.Context, key string, work func(context.Context) (string, error)) (string, error) {
		answer, _, err := lockmw.Do(ctx, locks, key, f, work)
		return answer, err
	}, func() { _ = locks.Close(context.Background()) }, nil
}

// looked looks for an answer, and otherwise has it made and kept: the inner part of what is written by hand.
func looked(ctx context.Context, client *redis.Client, key string, work func(context.Context) (string, error)) (string, error) {
	answer, err := client.Get(ctx, "answer:"+key).Result()
	if !errors.Is(err, redis.Nil) {
		return answer, err
	}
	if answer, err = work(ctx); err != nil {
		return "", err
	}
	return answer, client.Set(ctx, "answer:"+key, answer, time.Minute).Err()
}

func byWithLock(client *redis.Client) (maker, func(), error) {
	locks, err := lockmw.New(client)
	if err != nil {
		return nil, nil, err
	}
	p := lockmw.Policy{Wait: time.Minute}
	return func(ctx context.Context, key string, work func(context.Context) (string, error)) (string, error) {
		answer, err := client.Get(ctx, "answer:"+key).Result() // who comes later needs no lock
		if !errors.Is(err, redis.Nil) {
			return answer, err
		}
		return lockmw.WithLock(ctx, locks, key, p, func(ctx context.Context) (string, error) { return looked(ctx, client, key, work) })
	}, func() { _ = locks.Close(context.Background()) }, nil
}

func byRedislock(client *redis.Client) (maker, func(), error) {
	locker := redislock.New(client)
	return func(ctx context.Context, key string, work func(context.Context) (string, error)) (string, error) {
		answer, err := client.Get(ctx, "answer:"+key).Result()
		if !errors.Is(err, redis.Nil) {
			return answer, err
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		lock, err := locker.Obtain(ctx, "lock:"+key, 30*time.Second, &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)})
		if err != nil {
			return "", err
		}
		defer lock.Release(ctx) //nolint:errcheck // as people write it
		return looked(ctx, client, key, work)
	}, func() {}, nil
}

func bySingleflight(*redis.Client) (maker, func(), error) {
	group := new(singleflight.Group)
	return func(ctx context.Context, key string, work func(context.Context) (string, error)) (string, error) {
		answer, err, _ := group.Do(key, func() (any, error) { return work(ctx) })
		text, _ := answer.(string)
		return text, err
	}, func() {}, nil
}

// A turnout is what came of the rounds of a crowd.
type turnout struct {
	took []time.Duration // of a round
	late []time.Duration // of each caller: from when the work was done
	made int             // how often the work was done
}

// round has all callers of a round ask at the same time.
func (t *turnout) round(makers []maker) error {
	key := uuid.NewString()
	var done, made atomic.Int64
	work := func(context.Context) (string, error) { //nolint:unparam // the type is a maker's
		time.Sleep(crowdWork)
		made.Add(1)
		done.CompareAndSwap(0, time.Now().UnixNano())
		return "answer", nil
	}
	returned, errs := make([]int64, crowdCallers), make([]error, crowdCallers)
	var all sync.WaitGroup
	began := time.Now()
	for i := range crowdCallers {
		all.Go(func() {
			answer, err := makers[i%len(makers)](context.Background(), key, work)
			returned[i] = time.Now().UnixNano()
			if err == nil && answer != "answer" {
				err = fmt.Errorf("the answer is %q", answer)
			}
			errs[i] = err
		})
	}
	all.Wait()
	t.took = append(t.took, time.Since(began))
	t.made += int(made.Load())
	for _, at := range returned {
		t.late = append(t.late, time.Duration(at-done.Load()))
	}
	return errors.Join(errs...)
}

// runCrowds prints how soon crowds have their answers. The ways alternate, a round each.
func runCrowds(redisAddr string, rounds int) error {
	turnouts := make([]turnout, len(crowds))
	makers := make([][]maker, len(crowds))
	for i, c := range crowds {
		for range crowdLockers {
			m, end, err := c.of(redis.NewClient(&redis.Options{Addr: redisAddr}))
			if err != nil {
				return err
			}
			defer end()
			makers[i] = append(makers[i], m)
		}
	}
	for round := range rounds + 1 {
		for i := range crowds {
			if round == 1 {
				turnouts[i] = turnout{} // the first one has made the connections
			}
			if err := turnouts[i].round(makers[i]); err != nil {
				return fmt.Errorf("%s: %w", crowds[i].name, err)
			}
		}
	}
	fmt.Fprintf(os.Stdout, "%-38s %8s %10s %10s %10s %10s\n", "", "made", "calls/s", "spread", "late p50", "late p99")
	for i, t := range turnouts {
		slices.Sort(t.took)
		slices.Sort(t.late)
		rate := func(at int) float64 { return crowdCallers / t.took[at].Seconds() }
		n := len(t.took)
		fmt.Fprintf(os.Stdout, "%-38s %8.1f %10.0f %10s %10v %10v\n", crowds[i].name, float64(t.made)/float64(n), rate(n/2),
			fmt.Sprintf("%.0f-%.0f", rate(n*3/4), rate(n/4)), t.late[len(t.late)/2].Round(100*time.Microsecond), t.late[len(t.late)*99/100].Round(100*time.Microsecond))
	}
	return nil
}
