package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/record"
)

// slowly is a Locker that reaches a Redis through a proxy.
type slowly struct {
	proxy *faultproxy.Proxy
	locks *lockmw.Locker
}

func openSlowly(t *testing.T, addr string) slowly {
	t.Helper()
	s := slowly{proxy: faultproxy.Start(t, addr)}
	locks, err := lockmw.New(redistest.NewClient(t, s.proxy.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	s.locks = locks
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = locks.Close(ctx) // what it could not give back ends by its TTL
	})
	return s
}

// heal ends all faults.
func (s slowly) heal() {
	s.proxy.Heal()
	s.proxy.Delay(faultproxy.Both, 0)
	s.proxy.Cut() // what lost bytes would stay silent
}

// errStood is that the machine stood still for so long that there was no key left to measure.
var errStood = errors.New("the machine stood still")

// margin cuts a holder off, and returns how long before the end of its key its
// context ended.
func (s slowly) margin(admin *redis.Client, lease *lockmw.Lease) (time.Duration, error) {
	asked := clock.Now()
	s.proxy.BlackHole(faultproxy.Both)
	ctx := context.Background()
	left, err := admin.PTTL(ctx, "lock:{"+lease.Key()+"}").Result()
	expires := clock.Now() + left
	if testing.Short() && clock.Now()-asked > toldTTL()/3 {
		return 0, errStood
	}
	if err != nil || left <= 0 {
		return 0, fmt.Errorf("PTTL of a held lock is %v: %w", left, err)
	}
	<-lease.Context().Done()
	return expires - clock.Now(), nil
}

// toldTTL is the TTL of locks that must not be lost before their holder is cut off. The short
// run's machine is busy with other tests.
func toldTTL() time.Duration {
	if testing.Short() {
		return 3 * time.Second
	}
	return ttl()
}

// A lease's validity counts from before the question, however late the answer
// came.
func TestHolderBehindSlowRepliesIsToldInTime(t *testing.T) {
	server := redistest.Real(t)
	admin := server.Client(t)
	rounds, each := record.Pick(1, 10), 10
	ttl, stood := toldTTL(), stalls.During(t)
	var mu sync.Mutex
	var margins []time.Duration
	for range rounds {
		var all sync.WaitGroup
		for i := range each {
			s := openSlowly(t, server.Addr())
			renewed := i%2 == 1
			key := fmt.Sprintf("slow%d", i)
			all.Go(func() {
				ctx := context.Background()
				slow := min(ttl*2/5, 800*time.Millisecond) // the reply to the acquire; after a second it is given up
				if renewed {
					slow = ttl * 13 / 100 // those to renewals; a sixth, and they are given up
				}
				// One question before, so that connecting is not slow as well.
				if _, before, err := s.locks.Acquire(ctx, key+"before", lockmw.Policy{TTL: ttl}); err == nil {
					time.Sleep(ttl / 2) // it is renewed once
					_ = before.Release(ctx)
				}
				s.proxy.Delay(faultproxy.ToClient, slow)
				_, lease, err := s.locks.Acquire(ctx, key, lockmw.Policy{TTL: ttl, Wait: 5 * ttl})
				if testing.Short() && errors.Is(err, lockmw.ErrUnavailable) { // a busy machine
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				defer func() {
					s.heal()
					_ = lease.Release(ctx) // it was lost
				}()
				if renewed {
					time.Sleep(ttl)
				}
				if !lease.Valid() { // a busy machine: no renewal came through in time
					return
				}
				due := lease.ValidUntil().Add(-ttl / 10) // its context's end
				m, err := s.margin(admin, lease)
				if errors.Is(err, errStood) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if testing.Short() { // a process that gets no CPU is told late, whoever tells it
					m += stood.Longest(due, time.Now())
				}
				mu.Lock()
				defer mu.Unlock()
				margins = append(margins, m)
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		if err := admin.FlushAll(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	least := slices.Min(append(margins, time.Hour))
	record.Add(t, record.Row{
		Name:   "holder behind slow replies, then partitioned",
		Goal:   "context done before the key can expire",
		Figure: fmt.Sprintf("%d of %d, the closest by %v", len(margins), rounds*each, least.Round(time.Millisecond)),
		Met:    len(margins) >= rounds*each/2 && least > 0,
	})
}

// A renewal never makes a lock anew: its holder is told that it is gone, and it
// stays gone.
func TestRenewalNeverCreatesALock(t *testing.T) {
	server := redistest.Real(t)
	admin := server.Client(t)
	ctx := context.Background()
	locks, err := lockmw.New(server.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(ctx)
	limit := ttl()/3 + 500*time.Millisecond
	if testing.Short() {
		limit += 5 * time.Second // on a machine that is busy with other tests
	}
	var latest time.Duration
	told, back, times := 0, 0, record.Pick(10, 50)
	for i := range times {
		_, lease, err := locks.Acquire(ctx, fmt.Sprint("deleted", i), lockmw.Policy{TTL: ttl()})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * ttl() / 100) // at another point between two renewals
		at := clock.Now()
		if err := admin.Del(ctx, "lock:{"+lease.Key()+"}").Err(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-lease.Context().Done():
			told++
			latest = max(latest, clock.Now()-at)
		case <-time.After(limit):
		}
		back += int(admin.Exists(ctx, "lock:{"+lease.Key()+"}").Val())
		_ = lease.Release(ctx) // it is lost
		if told <= i {
			break // each further one would take as long
		}
	}
	record.Add(t, record.Row{
		Name:   "a held lock is deleted, and nobody else wants it",
		Goal:   fmt.Sprintf("%d of %d told within %v, 0 come back", times, times, limit),
		Figure: fmt.Sprintf("%d told, the latest after %v; %d came back", told, latest.Round(time.Millisecond), back),
		Met:    told == times && back == 0,
	})
}
