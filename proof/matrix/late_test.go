package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// A reply that comes 100 ms late holds up those whose commands are behind it on its
// connection, and nobody else: of 500 callers (100 in the short form), new calls go
// on over other connections. No lease is lost.
func TestALateReplyUnderManyCallers(t *testing.T) {
	const leases, late = 100, 100 * time.Millisecond
	times, callers, lasts := record.Pick(5, 50), 500, ttl()
	if testing.Short() { // the race detector, on two cores that others use
		callers, lasts = 100, 10*time.Second // 500 would keep it so busy that a release's 400 ms pass without any fault
	}
	server := redistest.Real(t)
	stood := stalls.During(t)
	t.Cleanup(redistest.Pulse(stood, 20*time.Millisecond, redistest.Silences, server.Client(t)))
	s := openSlowly(t, server.Addr())
	ctx := context.Background()
	var held []*lockmw.Lease
	for i := range leases {
		_, lease, err := s.locks.Acquire(ctx, fmt.Sprint("held", i), lockmw.Policy{TTL: lasts})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, lease)
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var turns, failed atomic.Int64
	slowest := make([]time.Duration, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := 0; working.Err() == nil; n++ {
				began := time.Now()
				_, lease, err := s.locks.Acquire(ctx, fmt.Sprint("own", i), lockmw.Policy{TTL: lasts})
				slowest[i] = max(slowest[i], time.Since(began))
				if err == nil {
					err = lease.Release(ctx)
				}
				// Behind a late reply, a release's 400 ms are over when a busy machine stands still for the rest of them.
				stoodStill := testing.Short() && errors.Is(err, lockmw.ErrUnavailable) && stood.Longest(began, time.Now()) >= 400*time.Millisecond-late
				switch {
				case err == nil:
					turns.Add(1)
				case !stoodStill:
					failed.Add(1)
					t.Error(err)
					return
				}
				select { // else all would be behind the late reply
				case <-working.Done():
				case <-time.After(time.Duration(20+i%20) * time.Millisecond):
				}
			}
		})
	}
	meanwhile := make([]int64, 0, times) // turns in the second half of the delay
	for range times {
		time.Sleep(200 * time.Millisecond) // they take turns
		s.proxy.Busiest().Stall(faultproxy.ToClient)
		time.Sleep(late / 2)
		before := turns.Load()
		time.Sleep(late / 2)
		meanwhile = append(meanwhile, turns.Load()-before)
		s.proxy.Heal()
	}
	stop()
	all.Wait()
	lost := 0
	for _, lease := range held {
		if !lease.Valid() {
			lost++
		}
		_ = lease.Release(ctx) // a lost one is counted
	}
	longest := slices.Max(slowest)
	limit := time.Second
	if testing.Short() {
		limit += 5 * time.Second // on a machine that is busy with other tests
	}
	least := slices.Min(meanwhile)
	record.Add(t, record.Row{
		Name: fmt.Sprintf("a reply 100 ms late under %d callers", callers),
		Goal: fmt.Sprintf("%d times: the others take turns meanwhile, each call within %v, 0 fail, 0 of %d leases lost", times, limit, leases),
		Figure: fmt.Sprintf("%d times, %d turns; in 50 ms of each delay at least %d turns, in the middle one %d; longest call %v; %d failed, %d lost",
			times, turns.Load(), least, median(meanwhile), longest.Round(time.Millisecond), failed.Load(), lost),
		Met: median(meanwhile) > 0 && longest <= limit && failed.Load() == 0 && lost == 0,
	})
}

func median(all []int64) int64 {
	slices.Sort(all)
	return all[len(all)/2]
}
