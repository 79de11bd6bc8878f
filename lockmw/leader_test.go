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
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// election is a policy of leaders in these tests.
var election = lockmw.Policy{TTL: 5 * time.Second, RetryInterval: 20 * time.Millisecond}

// untilTold is the work of a leader that does nothing but lead.
func untilTold(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestOneLeadsAtATimeAndTheNextFollows(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		const candidates = 4
		var leading, terms atomic.Int32
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var highest atomic.Int64
		for range candidates {
			leader := testenv.Open(t, c).Leader(key, election)
			all.Go(func() {
				err := leader.Run(ctx, func(ctx context.Context) error {
					if n := leading.Add(1); n != 1 || !leader.IsLeader() {
						t.Errorf("%d lead, IsLeader says %v", n, leader.IsLeader())
					}
					lease, ok := lockmw.FromContext(ctx)
					if !ok || lease.Fence() <= highest.Swap(lease.Fence()) {
						t.Error("its fence is not above those of the leaders before")
					}
					time.Sleep(10 * time.Millisecond)
					if terms.Add(1) == 3*candidates {
						cancel()
					}
					leading.Add(-1)
					return errors.New("that was enough")
				})
				if !errors.Is(err, context.Canceled) && (err == nil || err.Error() != "that was enough") {
					t.Errorf("Run = %v", err)
				}
				if leader.IsLeader() {
					t.Error("IsLeader after Run")
				}
			})
		}
		all.Wait()
		if n := terms.Load(); n < 3*candidates {
			t.Errorf("there were %d terms", n)
		}
		noKeys(t, c, key, 5*time.Second)
	})
}

func TestRunEndsAsItSays(t *testing.T) {
	oops := errors.New("oops")
	resigned := errors.Join(lockmw.ErrResign, oops)
	for name, tc := range map[string]struct {
		returns, want error
	}{
		"the work is done": {nil, nil},
		"the leader goes":  {lockmw.ErrResign, lockmw.ErrResign},
		"it goes, and why": {resigned, resigned},
	} {
		m := redistest.Embedded(t)
		leader := testenv.Open(t, m.Client(t)).Leader("k", election)
		terms := 0
		err := leader.Run(t.Context(), func(context.Context) error {
			terms++
			return tc.returns
		})
		if err != tc.want || terms != 1 { //nolint:errorlint // exactly fn's
			t.Errorf("%s: Run = %v after %d terms, want %v after one", name, err, terms, tc.want)
		}
		if m.Exists("lock:{k}") {
			t.Errorf("%s: the lock is held still", name)
		}
	}
}

func TestALeaderThatFailsCampaignsAgain(t *testing.T) {
	var log logBuffer
	oops := errors.New("oops")
	leader := testenv.Open(t, redistest.Embedded(t).Client(t), log.option()).Leader("k", election)
	terms := 0
	err := leader.Run(t.Context(), func(context.Context) error {
		if terms++; terms == 3 {
			return nil
		}
		return oops
	})
	if err != nil || terms != 3 {
		t.Errorf("Run = %v after %d terms, want 3", err, terms)
	}
	await.Within(t, 5*time.Second, "the failures are logged", func() bool { return strings.Count(strings.Join(log.lines(), ""), "error=oops") == 2 })
}

// Another lock that its work has lost is no loss of leadership.
func TestALeaderWhoseWorkHasLostAnotherLockHasFailed(t *testing.T) {
	var log logBuffer
	leader := testenv.Open(t, redistest.Embedded(t).Client(t), log.option()).Leader("k", election)
	terms := 0
	err := leader.Run(t.Context(), func(context.Context) error {
		if terms++; terms == 2 {
			return nil
		}
		return fmt.Errorf("a row of the table: %w", lockmw.ErrLost)
	})
	if err != nil || terms != 2 {
		t.Errorf("Run = %v after %d terms, want 2", err, terms)
	}
	await.Within(t, 5*time.Second, "the failure is logged", func() bool { return strings.Contains(strings.Join(log.lines(), ""), "a row of the table") })
}

// Terms that end at once are further and further apart, so that a leader that cannot work
// is no load.
func TestCampaignsAreFurtherAndFurtherApart(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		leader := testenv.Open(t, s.Client(t)).Leader("k", lockmw.Policy{TTL: 500 * time.Millisecond})
		began, terms := time.Now(), 0
		_ = leader.Run(t.Context(), func(context.Context) error {
			if terms++; terms == 10 {
				return nil
			}
			return errors.New("oops")
		})
		// 0.1, 0.2, 0.4 … 3.2, 5, 5, 5 s, and up to as much again.
		if took := time.Since(began); took < 21*time.Second || took > 43*time.Second {
			t.Errorf("ten terms took %v", took)
		}
	})
}

func TestALeaderIsToldOfItsLossAndLeadsAgain(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		p := election
		p.TTL = 500 * time.Millisecond // the next renewal tells of the loss
		leader := testenv.Open(t, c).Leader(key, p)
		terms := 0
		err := leader.Run(t.Context(), func(ctx context.Context) error {
			if terms++; terms >= 2 { // a machine that stands still may cost it a term, which is not the last one then
				return nil
			}
			c.Del(ctx, "lock:{"+key+"}")
			<-ctx.Done()
			if leader.IsLeader() {
				t.Error("IsLeader after the loss")
			}
			if !errors.Is(context.Cause(ctx), lockmw.ErrLost) {
				t.Errorf("cause = %v", context.Cause(ctx))
			}
			return nil // as if the work had been done: it was not, under the lock
		})
		if err != nil || terms < 2 {
			t.Errorf("Run = %v after %d terms, want 2", err, terms)
		}
	})
}

func TestATermEndsWithMaxHold(t *testing.T) {
	p := election
	p.MaxHold = 50 * time.Millisecond
	leader := testenv.Open(t, redistest.Embedded(t).Client(t)).Leader("k", p)
	terms := 0
	err := leader.Run(t.Context(), func(ctx context.Context) error {
		if terms++; terms >= 3 { // on a machine that stands still MaxHold may be over here, too
			return nil
		}
		<-ctx.Done()
		return nil // as if the work were done
	})
	if err != nil || terms < 3 {
		t.Errorf("Run = %v after %d terms, want 3", err, terms)
	}
}

func TestRunEndsWithItsContextAndWithTheLocker(t *testing.T) {
	t.Parallel()
	m := redistest.Embedded(t)
	first, second := testenv.Open(t, m.Client(t)), testenv.Open(t, m.Client(t))
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	leads, campaigns, closed := first.Leader("k", election), first.Leader("k", election), second.Leader("k", election)
	begun := make(chan struct{})
	var once sync.Once // a machine that stands still may cost it a term
	ends := make(chan error, 1)
	go func() {
		ends <- leads.Run(ctx, func(ctx context.Context) error {
			once.Do(func() { close(begun) })
			return untilTold(ctx)
		})
	}()
	<-begun
	campaigned, closing := make(chan error, 1), make(chan error, 1)
	go func() { campaigned <- campaigns.Run(ctx, untilTold) }()
	go func() { closing <- closed.Run(t.Context(), untilTold) }()
	await.Within(t, 5*time.Second, "both wait", func() bool { return lockmw.Waiting(first, "k")+lockmw.Waiting(second, "k") == 2 })
	if err := second.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-closing; !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("after Close: Run = %v", err)
	}
	cancel(stopped)
	for _, err := range []error{<-ends, <-campaigned} {
		if !errors.Is(err, stopped) {
			t.Errorf("after the end of its context: Run = %v", err)
		}
	}
	if err := closed.Run(t.Context(), untilTold); !errors.Is(err, lockmw.ErrClosed) {
		t.Errorf("on a closed Locker: Run = %v", err)
	}
}

// Neither waits for the end of a pause between two campaigns.
func TestRunEndsInTheMiddleOfAPause(t *testing.T) {
	for name, end := range map[string]func(l *lockmw.Locker, cancel func()) error{
		"its context": func(_ *lockmw.Locker, cancel func()) error { cancel(); return context.Canceled },
		"the Locker":  func(l *lockmw.Locker, _ func()) error { _ = l.Close(over()); return lockmw.ErrClosed },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				l := testenv.Open(t, s.Client(t))
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				leader := l.Leader("k", lockmw.Policy{RetryInterval: time.Hour})
				ended := make(chan error, 1)
				go func() { ended <- leader.Run(ctx, func(context.Context) error { return errors.New("oops") }) }()
				time.Sleep(time.Minute)
				want, began := end(l, cancel), time.Now()
				if err := <-ended; !errors.Is(err, want) || time.Since(began) > time.Second {
					t.Errorf("Run = %v after %v, want %v at once", err, time.Since(began), want)
				}
			})
		})
	}
}

func TestALeaderRunsOnceAtATime(t *testing.T) {
	leader := testenv.Open(t, redistest.Embedded(t).Client(t)).Leader("reports", election)
	err := leader.Run(t.Context(), func(ctx context.Context) error {
		if err := leader.Run(ctx, untilTold); err == nil || !strings.Contains(err.Error(), `"reports": Run is under way`) {
			t.Errorf("the second Run = %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestALeaderThatLeadsAlreadyIsReentrant(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	err := l.Leader("k", election).Run(t.Context(), func(ctx context.Context) error {
		if err := l.Leader("k", election).Run(ctx, untilTold); !errors.Is(err, lockmw.ErrReentrant) {
			t.Errorf("the inner Run = %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAPanicOfALeaderGoesOn(t *testing.T) {
	m := redistest.Embedded(t)
	leader := testenv.Open(t, m.Client(t)).Leader("k", election)
	func() {
		defer func() {
			if got := recover(); got != "oops" {
				t.Errorf("recovered %v", got)
			}
		}()
		_ = leader.Run(t.Context(), func(context.Context) error { panic("oops") })
	}()
	if leader.IsLeader() || m.Exists("lock:{k}") {
		t.Error("it leads still")
	}
	if err := leader.Run(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("it cannot run again: %v", err)
	}
}

func TestElectionsThatCannotBeAreMistakes(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	for want, tc := range map[string]struct {
		key string
		p   lockmw.Policy
	}{
		"invalid key: empty":                       {"", lockmw.Policy{}},
		"TTL: 1ns":                                 {"k", lockmw.Policy{TTL: 1}},
		"Wait: an election":                        {"k", lockmw.Policy{Wait: time.Second}},
		"Retries: an election":                     {"k", lockmw.Policy{Retries: 3}},
		"FailOpen: there would be several leaders": {"k", lockmw.Policy{FailOpen: true}},
		"Permits: there would be several leaders":  {"k", lockmw.Policy{Permits: 2}},
		"Mode: there would be several leaders":     {"k", lockmw.Policy{Mode: lockmw.Shared}},
		"Reentrant: several would lead":            {"k", lockmw.Policy{Reentrant: true}},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, want) {
					t.Errorf("panic %q, want it to say %q", got, want)
				}
			}()
			l.Leader(tc.key, tc.p)
		}()
	}
	l.Leader("k", lockmw.Policy{Retries: lockmw.Forever})
}
