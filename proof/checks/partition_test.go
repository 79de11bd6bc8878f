package checks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// A holder that is cut off learns of it before its key can expire. When that
// can be at the earliest is asked of the server, on another way; the holder's
// end is when a goroutine that waits for it runs.
func TestPartitionedHolderIsToldInTime(t *testing.T) {
	random := seed(record.Seed(t))
	least := 100 * time.Millisecond
	if testing.Short() {
		least = 0
	}
	const atOnce = 20
	times := record.Pick(10, 200)
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	direct := s.Client(t)
	var margins samples

	one := func(proxy *faultproxy.Proxy, locker *lockmw.Locker, i int) error {
		key := fmt.Sprint(prefix, i)
		lease, err := acquire(locker, key, lockmw.Policy{TTL: ttl})
		if err != nil {
			return err
		}
		time.Sleep(random.upTo(i, ttl)) // the fault's moment: anywhere in three renewal cycles
		proxy.BlackHole(faultproxy.Both)
		expires, err := earliest(direct, key)
		if err != nil {
			return err
		}
		<-lease.Context().Done()
		told := time.Now()
		again, err := earliest(direct, key)
		if err == nil && again.After(expires) {
			expires = again // both are bounds; the first question may have been slow
		}
		margin := expires.Sub(told)
		margins.add(margin)
		if err != nil && time.Now().Before(expires) {
			return fmt.Errorf("before its end: %w", err)
		}
		proxy.Heal()
		proxy.Cut()
		released := lease.Release(context.Background())
		switch {
		case !errors.Is(context.Cause(lease.Context()), lockmw.ErrLost):
			return fmt.Errorf("the context ended with %w, want ErrLost", context.Cause(lease.Context()))
		case lease.Valid() || !errors.Is(released, lockmw.ErrLost):
			return fmt.Errorf("valid %v, release = %w; want false and ErrLost", lease.Valid(), released)
		}
		return nil
	}
	stood, began := stalls.During(t), time.Now()
	for first := 0; first < times; first += atOnce {
		t.Run(fmt.Sprint("from ", first), func(t *testing.T) { // closes its Lockers and proxies
			n := min(atOnce, times-first)
			proxies, lockers := behindProxies(t, s, n)
			forEach(t, n, n, func(i int) error { return one(proxies[i], lockers[i], first+i) })
		})
	}
	late := stood.Longest(began, time.Now())
	smallest, told := margins.quantile(0), margins.count()
	bound := least
	if testing.Short() {
		bound -= late // a process that gets no CPU is told late, whoever tells it
	}
	record.Add(t, record.Row{
		Check: 6, Name: "holder partitioned",
		Goal:   fmt.Sprintf("%d of %d: context done %v or more before the key can expire", times, times, least),
		Figure: fmt.Sprintf("%d told; smallest margin %s, median %s", told, short(smallest), short(margins.quantile(0.5))),
		Met:    told == times && smallest >= bound && !t.Failed(),
		Note: fmt.Sprintf("TTL 2 s; cut off both ways at a random moment of the renewal cycle; the key's end by PTTL from another client; "+
			"a goroutine that only sleeps was late by %s at most", short(late)),
	})
}

// earliest is when a key ends at the earliest: PTTL counts in milliseconds, and
// the server counts after the question.
func earliest(c *redis.Client, key string) (time.Time, error) {
	asked := time.Now()
	left, err := c.PTTL(context.Background(), redisKey(key)).Result()
	if err == nil && left <= 0 {
		err = fmt.Errorf("the key has %v left", left)
	}
	return asked.Add(left - time.Millisecond), err
}
