package lockmw_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// The log has a line about work when it becomes uncertain, and not only when somebody asks for it: with the id that Resolve wants, and why. Who asks
// later adds none. What is known is in no line.
func TestUncertainWorkIsLoggedWhenItHappens(t *testing.T) {
	type world struct {
		l, other *lockmw.Locker
		key      string
	}
	failed := errors.New("it has failed")
	lose := func(ctx context.Context, w world) {
		_ = w.other.ForceRelease(context.Background(), w.key)
		<-ctx.Done()
	}
	stopped := func(ctx context.Context, _ world) { <-ctx.Done() }
	undone := func(ctx context.Context, _ world) { lockmw.NotAnAnswer(ctx) }
	both := func(first, second func(context.Context, world)) func(context.Context, world) {
		return func(ctx context.Context, w world) {
			first(ctx, w)
			second(ctx, w)
		}
	}
	for name, tc := range map[string]struct {
		does func(context.Context, world)
		ends error
		why  string // empty: there is no line
	}{
		"a panic":                 {func(context.Context, world) { panic(failed) }, nil, "has panicked"},
		"an end of its goroutine": {func(context.Context, world) { runtime.Goexit() }, nil, "has panicked"},
		"it says so":              {func(ctx context.Context, _ world) { lockmw.MarkUncertain(ctx) }, nil, "says that it does not know"},
		"its error says so":       {nil, lockmw.ErrUncertain, "says that it does not know"},
		"it was told to stop":     {stopped, failed, "told to stop"},
		"a request was too slow":  {nil, context.DeadlineExceeded, "took too long"},
		"its lock was lost":       {lose, failed, "told to stop"},
		"its lock was lost, and it knows of no harm": {both(undone, lose), failed, "the lock was lost"},
		"it has given its lock back": {func(ctx context.Context, _ world) {
			lease, _ := lockmw.FromContext(ctx)
			_ = lease.Release(ctx)
		}, nil, "was given back"},

		"it is done":                                    {nil, nil, ""},
		"it is done, and the lock was lost":             {lose, nil, ""},
		"it was not done":                               {nil, failed, ""},
		"it was told to stop, and knows of no harm":     {both(stopped, undone), failed, ""},
		"it knows of no harm, and was told to stop":     {both(undone, stopped), failed, ""},
		"it was told to stop, and is done all the same": {stopped, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				var log, others logBuffer
				w := world{testenv.Open(t, s.Client(t), log.option()), testenv.Open(t, s.Client(t), others.option()), redistest.Prefix(t)}
				f := uncertain
				f.Policy.MaxHold = time.Minute
				over := make(chan struct{})
				go func() { // runtime.Goexit ends it
					defer close(over)
					defer func() { _ = recover() }()
					_, _, _ = lockmw.Do(context.Background(), w.l, w.key, f, func(ctx context.Context) (string, error) {
						if tc.does != nil {
							tc.does(ctx, w)
						}
						return "paid", tc.ends
					})
				}()
				<-over
				synctest.Wait()
				told := errorLines(&log)
				if tc.why == "" {
					if len(told) > 0 {
						t.Errorf("logged %q, want no error", told)
					}
					return
				}
				id := wantUncertain(t, w.other, w.key, f)
				if len(told) != 1 || !strings.Contains(told[0], "key="+w.key) || !strings.Contains(told[0], "work="+id) ||
					!strings.Contains(told[0], tc.why) || !strings.Contains(told[0], "reason=IDEMPOTENCY_UNCERTAIN") {
					t.Errorf("logged %q, want one line about the work %s that says %q", told, id, tc.why)
				}
				wantUncertain(t, w.l, w.key, f)
				synctest.Wait()
				if again := errorLines(&log); len(again) != 1 {
					t.Errorf("logged %q in the end, want nothing more", again)
				}
				if theirs := errorLines(&others); len(theirs) != 1 {
					t.Errorf("the other process has logged %q, want one line", theirs)
				}
			})
		})
	}
}

// errorLines are the lines of errors.
func errorLines(b *logBuffer) (lines []string) {
	for _, line := range b.lines() {
		if strings.Contains(line, "level=ERROR") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Where the next call does the work again, nothing is uncertain.
func TestWorkThatIsDoneAgainIsNotLoggedAsUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		var log logBuffer
		l, key := testenv.Open(t, s.Client(t), log.option()), redistest.Prefix(t)
		panics(t, l, key, retained(time.Hour))
		_, _, err := lockmw.Do(context.Background(), l, key, retained(time.Hour), func(context.Context) (string, error) { return "", lockmw.ErrUncertain })
		if !errors.Is(err, lockmw.ErrUncertain) {
			t.Error(err)
		}
		synctest.Wait()
		if told := errorLines(&log); len(told) > 0 {
			t.Errorf("logged %q, want no error", told)
		}
	})
}

// A process that ends before Redis has heard what became of work leaves that to others, and says so.
func TestUncertainWorkOfWhichRedisIsNeverTold(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		var log logBuffer
		key := redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, err := lockmw.New(client, log.option())
		if err != nil {
			t.Fatal(err)
		}
		_, _, _ = lockmw.Do(context.Background(), l, key, uncertain, func(context.Context) (string, error) {
			proxy.BlackHole(faultproxy.Both)
			return "paid", nil
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if told := errorLines(&log); len(told) > 0 {
			t.Errorf("logged %q while it is tried further", told)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = l.Close(ctx)
		synctest.Wait()
		if told := errorLines(&log); len(told) != 1 || !strings.Contains(told[0], "key="+key) || !strings.Contains(told[0], "Redis could not be told") {
			t.Errorf("logged %q, want one line about the work", told)
		}
	})
}
