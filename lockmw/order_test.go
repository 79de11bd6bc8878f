package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// The first waiter of a process stands in Redis's queue for those behind it. When its wait is over, the next one has its place by the same
// command, and not only when the process, which is far away, has heard of that: in between the lock would go to one that came later.
func TestTheNextOneHasAPlaceWhenTheFirstGivesUp(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]int{"one gives up": 1, "three give up at the same time": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nextHasAPlace(t, giveUp)
		})
	}
}

// nextHasAPlace has so many waiters of a process give up, in front of one that waits on.
func nextHasAPlace(t *testing.T, giveUp int) {
	s, key := redistest.Shared(t), redistest.Prefix(t)
	c, ctx, queue := s.Client(t), context.Background(), "lock:{"+key+"}:queue"
	client, proxy := proxied(t, s)
	far, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
	holder := mustAcquire(t, testenv.Open(t, s.Client(t)), key, patient)

	p := patient
	p.Wait = 1500 * time.Millisecond
	given := make(chan error, giveUp)
	for i := range giveUp {
		go func() {
			_, _, err := far.Acquire(ctx, key, p)
			given <- err
		}()
		await.Until(t, "it waits", func() bool { return lockmw.Waiting(far, key) == i+1 && queued(t, c, key) == 1 })
	}
	first := c.ZRange(ctx, queue, 0, 0).Val()[0]
	next := lineUp(t, far, key, patient, 1)
	time.Sleep(300 * time.Millisecond) // they come one after the other also where the machine stands still for a moment
	last := lineUp(t, other, key, patient, 1)
	await.Until(t, "they stand in the queue", func() bool { return queued(t, c, key) == 2 })

	proxy.Delay(faultproxy.ToClient, 100*time.Millisecond)
	locker, _, _ := strings.Cut(first, ".")
	for range giveUp {
		for over := false; !over; {
			line := c.ZRange(ctx, queue, 0, -1).Val()
			if len(line) != 2 || !strings.HasPrefix(line[0], locker+".") {
				t.Fatalf("%q wait, want one of %s in front at all times", line, locker)
			}
			select {
			case err := <-given:
				over = true
				if !errors.Is(err, lockmw.ErrNotAcquired) {
					t.Errorf("one of those that give up: %v, want ErrNotAcquired", err)
				}
			case <-time.After(time.Millisecond):
			}
		}
	}
	mustRelease(t, holder)
	select {
	case lease := <-next:
		mustRelease(t, lease)
	case lease := <-last:
		t.Error("the one that came last is served first")
		mustRelease(t, lease)
	}
}

// A call that has the lock for longer than its MaxHold gives it back at once. The next one of its process, which rested, only asks then: the release names
// it, so that the lock goes to nobody who came later.
func TestAReleaseAfterMaxHoldNamesTheNextOne(t *testing.T) {
	t.Parallel()
	s, key := redistest.Shared(t), redistest.Prefix(t)
	client, proxy := proxied(t, s)
	l := testenv.Open(t, client)
	var named atomic.Int64
	names := faultproxy.MatchScript(redisstore.Scripts()["releaseto"])
	proxy.DropReplies(1, func(request []byte) bool {
		if names(request) {
			named.Add(1)
		}
		return false
	})
	p := patient
	p.MaxHold = 300 * time.Millisecond
	for range 5 { // on a machine that stands still the next one may have its answer first
		proxy.Heal()
		under, holder, err := l.Acquire(context.Background(), key, p)
		if err != nil {
			t.Fatal(err)
		}
		next := lineUp(t, l, key, patient, 1)
		proxy.Delay(faultproxy.ToClient, 100*time.Millisecond)
		<-under.Done()
		mustRelease(t, holder)
		mustRelease(t, <-next)
		if named.Load() > 0 {
			return
		}
	}
	t.Error("no release has named the next one")
}
