package lockmw_test

import (
	"context"
	"errors"
	"fmt"
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

// jobPolicy says how long a job's lock stays taken in these tests.
var jobPolicy = lockmw.Policy{Prefix: "cron:", MinHold: time.Minute}

func TestOneOfManyRunsAJob(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		var lockers []*lockmw.Locker
		for range 8 {
			lockers = append(lockers, testenv.Open(t, c))
		}
		var ran, skipped atomic.Int32
		round := 0
		err := answered(func() error { // all of it: whoever had no answer may have been in the way of the others, and does not run
			ran.Store(0)
			skipped.Store(0)
			job := fmt.Sprint(key, round)
			round++
			var all sync.WaitGroup
			errs := make([]error, len(lockers))
			for i, l := range lockers {
				all.Go(func() {
					did, err := l.Once(t.Context(), job, jobPolicy, func(context.Context) error {
						ran.Add(1)
						return nil
					})
					errs[i] = err
					if !did {
						skipped.Add(1)
					}
				})
			}
			all.Wait()
			return errors.Join(errs...)
		})
		if err != nil {
			t.Error(err)
		}
		if ran.Load() != 1 || skipped.Load() != 7 {
			t.Errorf("the job ran %d times, and %d said that it did not; want 1 and 7", ran.Load(), skipped.Load())
		}
	})
}

// Somebody else's job is nothing that anybody should be woken for.
func TestASkippedJobIsNoRefusal(t *testing.T) {
	var seen events
	var log logBuffer
	l := testenv.Open(t, redistest.Embedded(t).Client(t), seen.option(), log.option())
	defer mustRelease(t, mustAcquire(t, l, "cron:nightly", lockmw.Policy{}))
	ran, err := l.Once(t.Context(), "nightly", jobPolicy, func(context.Context) error {
		t.Error("it ran")
		return nil
	})
	if ran || err != nil {
		t.Errorf("Once = %v, %v, want false and no error", ran, err)
	}
	if refused := seen.of(lockmw.EventRefused); len(refused) > 0 {
		t.Errorf("observers are told of a refusal: %+v", refused)
	}
	skipped := seen.of(lockmw.EventSkipped)
	if len(skipped) != 1 || skipped[0].Key != "cron:nightly" || skipped[0].Err != nil || skipped[0].Reason != "" {
		t.Errorf("skipped events: %+v", skipped)
	}
	if lines := log.lines(); lines[0] != "" {
		t.Errorf("the log says %q", lines)
	}
}

func TestOnceReturnsWhatTheJobReturns(t *testing.T) {
	oops := errors.New("oops")
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	for range 2 { // a job that has failed may be tried again at once
		ran, err := l.Once(t.Context(), "nightly", jobPolicy, func(context.Context) error { return oops })
		if !ran || err != oops { //nolint:errorlint // exactly the job's
			t.Errorf("Once = %v, %v", ran, err)
		}
	}
	p := jobPolicy
	p.MinHoldOnError = true
	for i, want := range []bool{true, false} {
		if ran, _ := l.Once(t.Context(), "nightly", p, func(context.Context) error { return oops }); ran != want {
			t.Errorf("%d, MinHoldOnError: ran = %v, want %v", i, ran, want)
		}
	}
}

func TestOnceTellsWhatItCannotKnow(t *testing.T) {
	m := redistest.Embedded(t)
	l := testenv.Open(t, m.Client(t))
	never := func(context.Context) error {
		t.Error("it ran")
		return nil
	}
	for name, tc := range map[string]struct {
		ctx  context.Context
		p    lockmw.Policy
		want error
	}{
		"it would wait":         {t.Context(), lockmw.Policy{Wait: time.Second}, lockmw.ErrInvalidPolicy},
		"it would wait forever": {t.Context(), lockmw.Policy{Retries: lockmw.Forever}, lockmw.ErrInvalidPolicy},
		"all would share it":    {t.Context(), lockmw.Policy{Mode: lockmw.Shared}, lockmw.ErrInvalidPolicy},
		"several would hold it": {t.Context(), lockmw.Policy{Permits: 2}, lockmw.ErrInvalidPolicy},
		"the context has ended": {over(), jobPolicy, context.Canceled},
	} {
		ran, err := l.Once(tc.ctx, "nightly", tc.p, never)
		if refusal := (*lockmw.AcquireError)(nil); ran || !errors.Is(err, tc.want) || !errors.As(err, &refusal) {
			t.Errorf("%s: Once = %v, %v, want %v", name, ran, err, tc.want)
		}
	}
	m.SetError("LOADING Redis is loading the dataset in memory")
	if ran, err := l.Once(t.Context(), "nightly", jobPolicy, never); ran || !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("without Redis: Once = %v, %v", ran, err)
	}
	m.SetError("")
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ran, err := l.Once(t.Context(), "nightly", jobPolicy, never); ran || !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("after Close: Once = %v, %v", ran, err)
	}
}

// Nor is it one to the console, whose last refusals it would push out.
func TestASkippedJobIsNoIncident(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	defer mustRelease(t, mustAcquire(t, l, "cron:nightly", lockmw.Policy{}))
	if ran, err := l.Once(t.Context(), "nightly", jobPolicy, func(context.Context) error { return nil }); ran || err != nil {
		t.Fatalf("Once = %v, %v", ran, err)
	}
	if kept := incidents(l); len(kept) > 0 {
		t.Errorf("kept: %+v", kept)
	}
}

// Of all processes that come at the same time one runs a job, on a quorum too: votes that are
// split are nobody's.
func TestOneOfManyRunsAJobOnAQuorum(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	ns := newNodes(t, 3)
	const processes, rounds = 3, 5
	var lockers []*lockmw.Locker
	for near := range processes { // each is near another node
		var clients []redis.UniversalClient
		for i, n := range ns {
			client, proxy := proxied(t, n)
			if i != near {
				proxy.Delay(faultproxy.Both, 5*time.Millisecond)
			}
			clients = append(clients, client)
		}
		l, err := lockmw.NewQuorum(clients)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close(over()) })
		mustRelease(t, mustAcquire(t, l, "first", lockmw.Policy{Wait: 10 * time.Second})) // connections, scripts
		lockers = append(lockers, l)
	}
	none := 0
	for round := range rounds {
		var ran, failed atomic.Int32
		var all sync.WaitGroup
		key := time.Unix(int64(round), 0).UTC().Format(time.RFC3339)
		for _, l := range lockers {
			all.Go(func() {
				_, err := l.Once(t.Context(), key, jobPolicy, func(context.Context) error {
					ran.Add(1)
					return nil
				})
				if err != nil {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		switch n := ran.Load(); {
		case n > 1:
			t.Errorf("%d ran the job", n)
		case n == 0 && failed.Load() == 0:
			none++
		}
	}
	if none > 0 {
		t.Errorf("in %d of %d rounds nobody ran the job, and each was told that another one does", none, rounds)
	}
}
