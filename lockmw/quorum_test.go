package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/lockmw"
)

// nodes are the independent servers of a quorum.
type nodes []*redistest.Server

func newNodes(t *testing.T, n int) nodes {
	t.Helper()
	var all nodes
	for range n {
		all = append(all, redistest.Real(t))
	}
	return all
}

func (ns nodes) clients(tb testing.TB) []redis.UniversalClient {
	var all []redis.UniversalClient
	for _, n := range ns {
		all = append(all, n.Client(tb))
	}
	return all
}

// locker returns one more process's Locker over the nodes.
func (ns nodes) locker(tb testing.TB, opts ...lockmw.Option) *lockmw.Locker {
	tb.Helper()
	l, err := lockmw.NewQuorum(ns.clients(tb), opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close(over()) }) // nodes may be down
	return l
}

func TestQuorumOutlivesAMinority(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	const ttl, renewals = 10 * time.Second, 8 // a machine that stands still does not use the TTL up
	ns := newNodes(t, 5)
	l := ns.locker(t)
	p := lockmw.Policy{TTL: ttl, Wait: 10 * time.Second}
	lease := mustAcquire(t, l, "k", p)
	ns[0].Kill()
	ns[3].Kill()
	for range renewals {
		until := lease.ValidUntil()
		await.Within(t, 20*time.Second, "the lease is renewed", func() bool {
			if !lease.Valid() {
				t.Fatalf("the lease ended: %v", context.Cause(lease.Context()))
			}
			lockmw.RenewAll(l)
			return lease.ValidUntil().After(until)
		})
	}
	mustRelease(t, lease)
	mustRelease(t, mustAcquire(t, l, "k", p))

	ns[1].Kill()
	p.Wait = time.Second
	p.TTL = time.Minute // so that what it leaves would stay
	began := time.Now()
	_, _, err := l.Acquire(context.Background(), "k", p)
	took := time.Since(began)
	var refusal *lockmw.AcquireError
	if !errors.Is(err, lockmw.ErrUnavailable) || !errors.As(err, &refusal) || len(refusal.Votes) != 5 {
		t.Fatalf("with three of five nodes down: %v", err)
	}
	failed := 0
	for _, v := range refusal.Votes {
		if v.Err != nil {
			failed++
		}
	}
	if failed < 3 || took > p.Wait+5*time.Second {
		t.Errorf("%d nodes failed, within %v: %v", failed, took, err)
	}
	t.Logf("refused after %v of %v: %v", took, p.Wait, err)
	await.Within(t, 5*time.Second, "no minority key is left", func() bool {
		return ns[2].Client(t).DBSize(context.Background()).Val()+ns[4].Client(t).DBSize(context.Background()).Val() == 0
	})
}

func TestQuorumIsLostWithItsMajority(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	ns := newNodes(t, 3)
	l := ns.locker(t)
	lease := mustAcquire(t, l, "k", lockmw.Policy{TTL: 4 * time.Second, Wait: 20 * time.Second})
	ns[0].Kill()
	ns[1].Kill()
	until := lease.ValidUntil()
	select {
	case <-lease.Context().Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the lease goes on without a majority")
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrLost) {
		t.Errorf("cause = %v", cause)
	}
	if late := time.Since(until); late > 4*time.Second { // at once, on a quiet machine
		t.Errorf("told %v after the validity that was known", late)
	}
	if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Release = %v", err)
	}
}

func TestQuorumAdmitsOneAtATime(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	ns := newNodes(t, 3)
	var inside, most, entered atomic.Int64
	var workers sync.WaitGroup
	began := time.Now()
	for _, l := range []*lockmw.Locker{ns.locker(t), ns.locker(t)} {
		for range 4 {
			workers.Go(func() {
				for entered.Add(1) <= quorumTurns {
					err := l.WithLock(context.Background(), "k", lockmw.Policy{Retries: lockmw.Forever, RetryInterval: 2 * time.Millisecond}, func(ctx context.Context) error {
						n := inside.Add(1)
						defer inside.Add(-1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						return ctx.Err()
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	workers.Wait()
	if got := most.Load(); got != 1 {
		t.Errorf("%d were inside together", got)
	}
	t.Logf("%d turns of two Lockers in %v", quorumTurns, time.Since(began))
	for _, n := range ns {
		c := n.Client(t)
		await.Within(t, 5*time.Second, "nothing is left", func() bool { return c.DBSize(context.Background()).Val() == 0 })
	}
}

func TestQuorumTellsTheVotes(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 3)
	a, b := ns.locker(t), ns.locker(t)
	var lease *lockmw.Lease
	await.Within(t, 20*time.Second, "all nodes have voted for a lease", func() bool {
		lease = mustAcquire(t, a, "k", lockmw.Policy{}) // a majority is enough for it
		for _, n := range ns {
			if n.Client(t).DBSize(context.Background()).Val() == 0 {
				mustRelease(t, lease)
				return false
			}
		}
		return true
	})
	ns[2].Kill()
	_, _, err := b.Acquire(context.Background(), "k", lockmw.Policy{})
	var refusal *lockmw.AcquireError
	if !errors.Is(err, lockmw.ErrNotAcquired) || !errors.As(err, &refusal) || len(refusal.Votes) != 3 {
		t.Fatalf("err = %v", err)
	}
	for i, v := range refusal.Votes {
		if v.Node != ns[i].Addr() || v.Acquired {
			t.Errorf("vote %d = %+v, want one of %s against", i, v, ns[i].Addr())
		}
	}
	if n := strings.Count(err.Error(), "held by another"); n != 2 {
		t.Errorf("err = %v, want it to say twice who has the votes", err)
	}
	mustRelease(t, lease)
}

func TestQuorumServesItsOwnWaitersAtOnce(t *testing.T) {
	const turns = 20
	l := newNodes(t, 3).locker(t)
	var waited time.Duration
	for range turns {
		// A release is answered before the slowest node has carried it out, so this one may have to wait.
		first := mustAcquire(t, l, "k", lockmw.Policy{Wait: time.Minute, RetryInterval: 10 * time.Millisecond})
		got := make(chan error, 1)
		go func() {
			_, next, err := l.Acquire(context.Background(), "k", lockmw.Policy{Wait: time.Minute, RetryInterval: 20 * time.Second})
			if err == nil {
				err = next.Release(context.Background())
			}
			got <- err
		}()
		await.Within(t, 5*time.Second, "it waits", func() bool { return lockmw.Waiting(l, "k") == 1 })
		began := time.Now()
		mustRelease(t, first)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		waited += time.Since(began)
	}
	if waited > turns*200*time.Millisecond { // asking every 0.8 s takes twice that
		t.Errorf("%d hand-overs took %v", turns, waited)
	}
}

func TestQuorumOfReadersExcludesWriters(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 3)
	a, b := ns.locker(t), ns.locker(t)
	shared := lockmw.Policy{Mode: lockmw.Shared}
	first, second := mustAcquire(t, a, "k", shared), mustAcquire(t, b, "k", shared)
	if _, _, err := b.Acquire(context.Background(), "k", lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("a writer beside readers: %v", err)
	}
	mustRelease(t, first)
	mustRelease(t, second)
	writer := mustAcquire(t, a, "k", lockmw.Policy{Wait: 5 * time.Second})
	if _, _, err := b.Acquire(context.Background(), "k", shared); !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("a reader beside a writer: %v", err)
	}
	mustRelease(t, writer)
}

func TestQuorumRefusesWhatItCannotKeep(t *testing.T) {
	var c []redis.UniversalClient
	for i := range 5 {
		c = append(c, redistest.NewClient(t, fmt.Sprintf("127.0.0.1:%d", i+1)))
	}
	for _, tc := range []struct {
		clients []redis.UniversalClient
		want    string
	}{
		{nil, "0 nodes"},
		{c[:1], "1 nodes"},
		{c[:2], "2 nodes"},
		{c[:4], "4 nodes; the number must be odd"},
		{[]redis.UniversalClient{c[0], c[1], c[0]}, "nodes 1 and 3 are both 127.0.0.1:1"},
		{[]redis.UniversalClient{c[0], c[1], redistest.NewClient(t, "127.0.0.1:2")}, "nodes 2 and 3 are both 127.0.0.1:2"},
		{[]redis.UniversalClient{c[0], nil, c[1]}, "node 2: client is nil"},
	} {
		if _, err := lockmw.NewQuorum(tc.clients); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("err = %v, want it to say %q", err, tc.want)
		}
	}
	l, err := lockmw.NewQuorum(c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(over())
	_, _, err = l.Acquire(context.Background(), "k", lockmw.Policy{Permits: 2})
	if !errors.Is(err, lockmw.ErrInvalidPolicy) || !strings.Contains(err.Error(), "Permits") {
		t.Errorf("Permits: %v", err)
	}
	if err := l.Validate(lockmw.Policy{Permits: 2}); !errors.Is(err, lockmw.ErrInvalidPolicy) {
		t.Errorf("Validate = %v", err)
	}
}
