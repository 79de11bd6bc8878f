package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// loses has work for a key end without anybody knowing what came of it, and returns its id.
func loses(t *testing.T, l *lockmw.Locker, key string) string {
	t.Helper()
	began := time.Now()
	_, _, err := lockmw.Do(context.Background(), l, key, uncertain, func(context.Context) (string, error) { return "", lockmw.ErrUncertain })
	for unanswered(err, began) {
		_, _, err = lockmw.Do(context.Background(), l, key, uncertain, func(context.Context) (string, error) { return "", lockmw.ErrUncertain })
	}
	var of *lockmw.UncertainError
	if _, _, err := lockmw.Do(context.Background(), l, key, uncertain, pays("again")); !errors.As(err, &of) {
		t.Fatalf("Do = %v, want an UncertainError", err)
	}
	return of.ID
}

// wantWorks checks which work ListUncertain tells of, by key and id, and what it tells.
func wantWorks(t *testing.T, l *lockmw.Locker, prefix string, want map[string]string) {
	t.Helper()
	got := make(map[string]string)
	for info, err := range l.ListUncertain(context.Background(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		a := info.Answer
		if _, twice := got[info.Key]; twice || info.Held || len(info.Holders) > 0 || a == nil || a.State != lockmw.AnswerUncertain ||
			a.Since.After(time.Now().Add(time.Minute)) || time.Since(a.Since) > time.Hour {
			t.Errorf("%+v, %+v", info, a)
			continue
		}
		got[info.Key] = a.Work
	}
	if fmt.Sprint(got) != fmt.Sprint(want) { // maps are printed in order
		t.Errorf("%q: work %v is uncertain, want %v", prefix, got, want)
	}
}

func TestListUncertainTellsOfAllWorkThatNobodyKnows(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c, lockmw.WithNamespace(key)), testenv.Open(t, c, lockmw.WithNamespace(key+"x"))
		wantWorks(t, l, "", nil)
		loses(t, other, "order:1")
		for i := range 20 {
			if _, _, err := lockmw.Do(t.Context(), l, fmt.Sprint("order:", i), uncertain, pays("begun 7 7")); err != nil {
				t.Fatal(err)
			}
		}
		mustAcquire(t, l, "order:held", lockmw.Policy{})
		want := make(map[string]string)
		for _, k := range []string{"order:lost", "order:lost too", "a*b", "a?b", `a\b`, "axb", "日本 ", "a:answer"} {
			want[k] = loses(t, l, k)
		}
		only := func(keys ...string) map[string]string {
			some := make(map[string]string)
			for _, k := range keys {
				some[k] = want[k]
			}
			return some
		}
		wantWorks(t, l, "", want)
		for prefix, keys := range map[string][]string{
			"order:": {"order:lost", "order:lost too"}, "a*": {"a*b"}, "a?": {"a?b"}, `a\`: {`a\b`}, "日": {"日本 "}, "order:1": nil, "none": nil,
		} {
			wantWorks(t, l, prefix, only(keys...))
		}

		// While somebody has the lock the work may be in progress.
		_, _, err := lockmw.Do(t.Context(), l, "order:works", uncertain, func(context.Context) (string, error) {
			wantWorks(t, l, "order:", only("order:lost", "order:lost too"))
			return "done", nil
		})
		if err != nil {
			t.Error(err)
		}
		lease := mustAcquire(t, l, "order:lost", lockmw.Policy{})
		wantWorks(t, l, "order:", only("order:lost too"))
		mustRelease(t, lease)
		wantWorks(t, l, "order:", only("order:lost", "order:lost too"))

		// What is resolved is known.
		for k, r := range map[string]lockmw.Resolution{"order:lost": lockmw.Done("paid"), "a*b": lockmw.Again, "axb": lockmw.Discard} {
			if err := l.Resolve(t.Context(), k, want[k], r); err != nil {
				t.Fatal(err)
			}
			delete(want, k)
		}
		wantWorks(t, l, "", want)
	})
}

// More work than is asked about at the same time is told all the same, and only as much as the caller wants.
func TestListUncertainOfMuchWork(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c, lockmw.WithNamespace(key))
		want := make(map[string]string)
		for i := range 100 {
			k := fmt.Sprint(i)
			want[k] = loses(t, l, k)
		}
		wantWorks(t, l, "", want)
		n := 0
		for _, err := range l.ListUncertain(t.Context(), "") {
			if n++; err != nil || n == 3 {
				break
			}
		}
		if n != 3 {
			t.Errorf("%d came of the 3 that were wanted", n)
		}
	})
}

// lastOf returns the error with which a list ends, and how much came before it.
func lastOf(list iter.Seq2[lockmw.Info, error]) (n int, last error) {
	for _, err := range list {
		if last = err; err == nil {
			n++
		}
	}
	return n, last
}

func TestListUncertainEnds(t *testing.T) {
	client, proxy := proxied(t, redistest.Shared(t))
	l := testenv.Open(t, client, lockmw.WithNamespace(redistest.Prefix(t)))
	loses(t, l, "a")
	if n, err := lastOf(l.ListUncertain(over(), "")); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %d, %v", n, err)
	}
	proxy.Refuse(true)
	proxy.Cut()
	if n, err := lastOf(l.ListUncertain(context.Background(), "")); n != 0 || !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("without Redis: %d, %v", n, err)
	}
	proxy.Refuse(false)
	closesSoon(t, l)
	if n, err := lastOf(l.ListUncertain(context.Background(), "")); n != 0 || !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("closed: %d, %v", n, err)
	}
}

func TestListUncertainOnAClusterAndAQuorum(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	one, two, three := redistest.Embedded(t), redistest.Embedded(t), redistest.Embedded(t)
	quorum, err := lockmw.NewQuorum([]redis.UniversalClient{one.Client(t), two.Client(t), three.Client(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = quorum.Close(over()) })
	if n, err := lastOf(quorum.ListUncertain(t.Context(), "")); n != 0 || !errors.Is(err, lockmw.ErrInvalidPolicy) {
		t.Errorf("quorum: %d, %v, want ErrInvalidPolicy", n, err)
	}

	cluster := redistest.Cluster(t)
	l := testenv.Open(t, cluster.Client(t))
	want := make(map[string]string)
	for i := range 30 { // at each of the masters
		k := fmt.Sprint("k", i)
		want[k] = loses(t, l, k)
	}
	wantWorks(t, l, "k", want)
	cluster.Nodes[1].Kill()
	var told []string
	for info, err := range l.ListUncertain(t.Context(), "k") {
		if err != nil {
			if !errors.Is(err, lockmw.ErrUnavailable) {
				t.Errorf("without a master: %v, want ErrUnavailable", err)
			}
			told = append(told, "an error")
			continue
		}
		told = append(told, info.Key)
	}
	if n := len(told); n < 10 || n > 30 || slices.Index(told, "an error") != n-1 {
		t.Errorf("without a master: %q, want the work of the others, and then an error", told)
	}
}
