package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Callers that leave while Redis is slow are back at once, all of them. Those who stay
// and share their connections get their locks, and go on over the same connections.
func TestCallersThatLeaveDisturbNobody(t *testing.T) {
	slow.Test(t)
	const leave, stay, turns, within = 500, 16, 40, 800 * time.Millisecond // 20 ms on a quiet machine
	policy := lockmw.Policy{TTL: time.Minute, Wait: 20 * time.Second}      // also through a moment in which nothing is answered
	s, prefix := redistest.Shared(t), redistest.Prefix(t)
	proxy := faultproxy.Start(t, s.Addr())
	var dials atomic.Int64
	client := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	})
	l := testenv.Open(t, client)
	turn := func(name string) {
		lease, err := askedAgain(l, prefix+name, policy)
		if err != nil {
			t.Errorf("who stays: %v", err)
			return
		}
		asked := time.Now()
		if err := lease.Release(context.Background()); err != nil && !unanswered(err, asked) {
			t.Errorf("who stays, release: %v", err)
		}
	}
	proxy.Delay(faultproxy.ToClient, 30*time.Millisecond)
	for before := int64(-1); before != dials.Load(); { // until all connections are there
		before = dials.Load()
		burstOf(stay, func(i int) { turn(fmt.Sprint("first", i)) })
	}
	before := dials.Load()

	var staying, leaving sync.WaitGroup
	for i := range stay {
		staying.Go(func() {
			for j := range turns {
				turn(fmt.Sprint("stays", i, "-", j))
			}
		})
	}
	var mu sync.Mutex
	var back []time.Duration
	for i := range leave {
		ctx, cancel := context.WithCancel(context.Background())
		at := make(chan time.Time, 1)
		time.AfterFunc(time.Duration(i)*time.Millisecond+5*time.Millisecond, func() { at <- time.Now(); cancel() })
		leaving.Go(func() {
			_, lease, err := l.Acquire(ctx, fmt.Sprint(prefix, "leaves", i), policy)
			left := <-at
			now := time.Now()
			after := now.Sub(left) - machine.Between(left, now)
			mu.Lock()
			back = append(back, after)
			mu.Unlock()
			if err == nil {
				_ = lease.Release(context.Background())
			} else if !errors.Is(err, context.Canceled) && !unanswered(err, left) {
				t.Errorf("who leaves: %v", err)
			}
		})
	}
	leaving.Wait()
	staying.Wait()
	slices.Sort(back)
	t.Logf("%d of %d back within 20 ms; the last after %v; %d others took all their turns; %d connections, %d more",
		countUpTo(back, 20*time.Millisecond), leave, back[leave-1], stay, before, dials.Load()-before)
	if back[leave-1] > within {
		t.Errorf("the last was back after %v, want %v at most", back[leave-1], within)
	}
	if more := dials.Load() - before; more > leave/20 { // one or the other, on a machine that does not let a writer write
		t.Errorf("%d connections were made anew, want none", more)
	}
	proxy.Delay(faultproxy.ToClient, 0)
	noKeys(t, s.Client(t), prefix, 10*time.Second)
}

// countUpTo returns how many are not longer than most.
func countUpTo(all []time.Duration, most time.Duration) (n int) {
	for _, d := range all {
		if d <= most {
			n++
		}
	}
	return n
}

// burstOf has n goroutines do the same at once, and waits for them.
func burstOf(n int, do func(i int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			do(i)
		})
	}
	close(begin)
	all.Wait()
}
