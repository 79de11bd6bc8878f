package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// listed collects a List, and fails the test after an error or a lock that comes twice. A List
// without an answer in time is asked for again only where the machine stood still meanwhile.
func listed(t *testing.T, l *lockmw.Locker, prefix string) map[string]lockmw.Info {
	t.Helper()
	meter := stalls.Start()
	defer meter.Stop()
	for end := time.Now().Add(2 * time.Minute); ; {
		began := time.Now()
		all, err := listOnce(t, l, prefix)
		if err == nil {
			return all
		}
		stood := meter.Between(began, time.Now())
		if !errors.Is(err, lockmw.ErrUnavailable) || stood < 200*time.Millisecond || time.Now().After(end) {
			t.Fatalf("%v; the machine stood still for %v meanwhile", err, stood)
		}
	}
}

// listOnce collects one List, or returns its error.
func listOnce(t *testing.T, l *lockmw.Locker, prefix string) (map[string]lockmw.Info, error) {
	t.Helper()
	all := make(map[string]lockmw.Info)
	for info, err := range l.List(context.Background(), prefix) {
		if err != nil {
			return nil, err
		}
		if _, twice := all[info.Key]; twice {
			t.Errorf("%q comes twice", info.Key)
		}
		all[info.Key] = info
	}
	return all, nil
}

func TestListTellsOfAllLocks(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c, lockmw.WithNamespace(key)), testenv.Open(t, c, lockmw.WithNamespace(key+"x"))
		mustAcquire(t, other, "order:1", lockmw.Policy{})
		if all := listed(t, l, ""); len(all) != 0 {
			t.Errorf("no lock is held: %v", all)
		}
		want := make(map[string]int) // holders
		for i := range 100 {
			k := fmt.Sprint("order:", i)
			mustAcquire(t, l, k, lockmw.Policy{})
			want[k] = 1
		}
		for _, k := range []string{"a*b", "a?b", "a[x]b", `a\b`, "axb", "日本"} {
			mustAcquire(t, l, k, lockmw.Policy{Mode: lockmw.Shared})
			mustAcquire(t, l, k, lockmw.Policy{Mode: lockmw.Shared})
			want[k] = 2
		}
		if err := c.SetNX(t.Context(), key+":{foreign}", "mine", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		want["foreign"] = 1
		waits, cancel := context.WithCancel(context.Background())
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			_, _, _ = l.Acquire(waits, "order:7", patient) // given up below
		}()
		await.Within(t, 10*time.Second, "one waits", func() bool { return mustInspect(t, l, "order:7").Waiting == 1 })

		for prefix, keys := range map[string][]string{
			"":      slices.Collect(maps.Keys(want)),
			"order": slices.DeleteFunc(slices.Collect(maps.Keys(want)), func(k string) bool { return k[0] != 'o' }),
			"a*":    {"a*b"}, "a?": {"a?b"}, "a[x]": {"a[x]b"}, `a\`: {`a\b`}, "日": {"日本"}, "none": nil,
		} {
			got := listed(t, l, prefix)
			if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(slices.Values(keys))) {
				t.Errorf("%q: %v", prefix, slices.Sorted(maps.Keys(got)))
			}
			for k, info := range got {
				if !info.Held || len(info.Holders) != want[k] || (info.Waiting == 1) != (k == "order:7") {
					t.Errorf("%+v", info)
				}
			}
		}
		cancel()
		<-waited
	})
}

func TestListEnds(t *testing.T) {
	client, proxy := proxied(t, redistest.Shared(t))
	l := testenv.Open(t, client, lockmw.WithNamespace(redistest.Prefix(t)))
	for i := range 100 {
		mustAcquire(t, l, fmt.Sprint(i), lockmw.Policy{})
	}
	n := 0
	for _, err := range l.List(context.Background(), "") {
		if n++; err != nil || n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d came of the 3 that were wanted", n)
	}
	fails := func(what string, ctx context.Context, l *lockmw.Locker, want error) {
		t.Helper()
		n, last := 0, error(nil)
		for info, err := range l.List(ctx, "") {
			if n++; last != nil || err != nil && (info.Key != "" || info.Held) {
				t.Errorf("%s: %+v, %v after %v", what, info, err, last)
			}
			last = err
		}
		if !errors.Is(last, want) {
			t.Errorf("%s: %v after %d, want %v", what, last, n, want)
		}
	}
	fails("ended", over(), l, context.Canceled)
	proxy.Refuse(true)
	proxy.Cut()
	fails("without Redis", context.Background(), l, lockmw.ErrUnavailable)
	proxy.Refuse(false)
	closed := testenv.Open(t, client)
	closesSoon(t, closed)
	fails("closed", context.Background(), closed, lockmw.ErrClosed)
}

// A List over many locks does not keep Close waiting until it has seen them all.
func TestListEndsWhenTheLockerIsClosed(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c, lockmw.WithNamespace(key))
		const locks = 300
		for i := range locks {
			mustAcquire(t, l, fmt.Sprint(i), lockmw.Policy{})
		}
		closed := make(chan error, 1)
		n, last := 0, error(nil)
		for _, err := range l.List(context.Background(), "") {
			if n == 0 {
				go func() { closed <- l.Close(over()) }()
				<-lockmw.Closing(l)
			}
			if last = err; err == nil {
				n++
			}
		}
		if !errors.Is(last, lockmw.ErrClosed) || n == locks {
			t.Errorf("%d of %d locks, then %v; want %v", n, locks, last, lockmw.ErrClosed)
		}
		if err := <-closed; err != nil && !errors.Is(err, lockmw.ErrUnavailable) { // a busy machine does not give so many back in time
			t.Error(err)
		}
	})
}

func TestListOnAClusterAndAQuorum(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	cluster := redistest.Cluster(t)
	one, two, three := redistest.Embedded(t), redistest.Embedded(t), redistest.Embedded(t)
	quorum, err := lockmw.NewQuorum([]redis.UniversalClient{one.Client(t), two.Client(t), three.Client(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = quorum.Close(over()) })
	for name, l := range map[string]*lockmw.Locker{"Cluster": testenv.Open(t, cluster.Client(t)), "quorum": quorum} {
		for i := range 50 {
			mustAcquire(t, l, fmt.Sprint("k", i), lockmw.Policy{Wait: 20 * time.Second}) // through a busy machine's silence
		}
		if all := listed(t, l, "k"); len(all) != 50 {
			t.Errorf("%s: %d of 50", name, len(all))
		}
	}
}
