package checks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/faultproxy"
	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// A holder that is cut off learns of it before its key can expire. When that
// can be at the earliest is asked of the server, on another way; the holder's
// end is when a goroutine that waits for it runs.
func TestPartitionedHolderIsToldInTime(t *testing.T) {
	random := newSeed(t)
	least := 100 * time.Millisecond
	if testing.Short() {
		least = 0 // a busy machine runs the goroutine that is told when it pleases
	}
	const atOnce = 20
	times := record.Pick(10, 200)
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	direct := s.Client(t)
	var margins samples

	one := func(proxy *faultproxy.Proxy, locker *lockmw.Locker, i int) error {
		key := fmt.Sprint(prefix, i)
		lease, err := locker.Acquire(context.Background(), key, lockmw.Policy{TTL: ttl})
		if err != nil {
			return err
		}
		time.Sleep(random.upTo(i, ttl)) // the fault's moment: anywhere in three renewal cycles
		proxy.BlackHole(faultproxy.Both)
		asked := time.Now()
		left, err := direct.PTTL(context.Background(), redisKey(key)).Result()
		if err != nil || left <= 0 {
			return fmt.Errorf("the key has %v left before the end: %w", left, err)
		}
		expires := asked.Add(left - time.Millisecond) // it counts in milliseconds; asked is before the count
		<-lease.Context().Done()
		margin := time.Until(expires)
		margins.add(margin)
		exists := direct.Exists(context.Background(), redisKey(key)).Val()
		proxy.Heal()
		proxy.Cut()
		released := lease.Release(context.Background())
		switch {
		case !errors.Is(context.Cause(lease.Context()), lockmw.ErrLost):
			return fmt.Errorf("the context ended with %w, want ErrLost", context.Cause(lease.Context()))
		case exists != 1 && margin > 50*time.Millisecond:
			return fmt.Errorf("%v before its end the key is gone", margin)
		case lease.Valid() || !errors.Is(released, lockmw.ErrLost):
			return fmt.Errorf("valid %v, release = %w; want false and ErrLost", lease.Valid(), released)
		}
		return nil
	}
	for first := 0; first < times; first += atOnce {
		t.Run(fmt.Sprint("from ", first), func(t *testing.T) { // closes its Lockers and proxies
			n := min(atOnce, times-first)
			proxies, lockers := behindProxies(t, s, n)
			forEach(t, n, n, func(i int) error { return one(proxies[i], lockers[i], first+i) })
		})
	}
	smallest, told := margins.quantile(0), margins.count()
	record.Add(t, record.Row{
		Check: 6, Name: "holder partitioned",
		Goal:   fmt.Sprintf("%d of %d: context done %v or more before the key can expire", times, times, least),
		Figure: fmt.Sprintf("%d told; smallest margin %s, median %s", told, short(smallest), short(margins.quantile(0.5))),
		Met:    told == times && smallest >= least && !t.Failed(),
		Note:   "TTL 2 s; cut off both ways at a random moment of the renewal cycle; the key's end by PTTL from another client",
	})
}
