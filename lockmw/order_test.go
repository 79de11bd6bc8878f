package lockmw_test

import (
	"context"
	"errors"
	"slices"
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
	s, key := redistest.Shared(t), redistest.Prefix(t)
	c, ctx, queue := s.Client(t), context.Background(), "lock:{"+key+"}:queue"
	client, proxy := proxied(t, s)
	far, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
	holder := mustAcquire(t, testenv.Open(t, s.Client(t)), key, patient)

	p := patient
	p.Wait = time.Second
	given := make(chan error, 1)
	go func() {
		_, _, err := far.Acquire(ctx, key, p)
		given <- err
	}()
	stand := func(n int) {
		await.Until(t, "they stand in the queue", func() bool { return queued(t, c, key) == n })
	}
	stand(1)
	first := c.ZRange(ctx, queue, 0, 0).Val()[0]
	next := lineUp(t, far, key, patient, 1)
	last := lineUp(t, other, key, patient, 1)
	stand(2)

	proxy.Delay(faultproxy.ToClient, 100*time.Millisecond)
	var line []string
	await.Within(t, 10*time.Second, "the first one leaves the queue", func() bool {
		line = c.ZRange(ctx, queue, 0, -1).Val()
		return !slices.Contains(line, first)
	})
	locker, _, _ := strings.Cut(first, ".")
	if len(line) != 2 || !strings.HasPrefix(line[0], locker+".") {
		t.Errorf("when the first one had left, %q waited, want another one of %s in front", line, locker)
	}
	if err := <-given; !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("the first one: %v, want ErrNotAcquired", err)
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
