package lockmw_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestWithLockReturnsResultAndError(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		oops := errors.New("oops")
		n, err := lockmw.WithLock(context.Background(), l, key, lockmw.Policy{}, func(ctx context.Context) (int, error) {
			if lease, ok := lockmw.FromContext(ctx); !ok || !lease.Valid() || lease.Key() != key {
				t.Error("no lease inside")
			}
			return 42, oops
		})
		if n != 42 || err != oops { //nolint:errorlint // exactly fn's error
			t.Errorf("got %d, %v", n, err)
		}
		noKeys(t, c, key, 0)
	})
}

func TestRefusedWorkDoesNotRun(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	defer mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
	err := l.WithLock(context.Background(), "k", lockmw.Policy{}, func(context.Context) error {
		t.Error("it ran")
		return nil
	})
	if !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("err = %v", err)
	}
}

func TestLossIsJoinedToTheWorksError(t *testing.T) {
	oops := errors.New("oops")
	for _, inner := range []error{nil, oops} {
		m := redistest.Embedded(t)
		l := testenv.Open(t, m.Client(t))
		n, err := lockmw.WithLock(context.Background(), l, "k", lockmw.Policy{}, func(context.Context) (int, error) {
			m.Del("lock:{k}")
			return 42, inner
		})
		if n != 42 || !errors.Is(err, lockmw.ErrLost) || inner != nil && !errors.Is(err, inner) {
			t.Errorf("work's error %v: got %d, %v", inner, n, err)
		}
		wantOneLine(t, err)
	}
}

// wantOneLine fails the test unless err's text is one line, as log lines are.
func wantOneLine(t *testing.T, err error) {
	t.Helper()
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %q", err)
	}
}

func TestUnansweredReleaseDoesNotFailTheWork(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		var seen events
		l := testenv.Open(t, s.Client(t), seen.option())
		err := l.WithLock(context.Background(), "k", lockmw.Policy{TTL: 500 * time.Millisecond}, func(context.Context) error {
			s.SetError("LOADING Redis is loading the dataset in memory")
			return nil
		})
		if err != nil {
			t.Errorf("err = %v", err)
		}
		released := seen.of(lockmw.EventReleased)
		if len(released) != 1 || !errors.Is(released[0].Err, lockmw.ErrUnavailable) {
			t.Errorf("released events: %+v", released)
		}
		s.SetError("")
	})
}

func TestPanicReleasesAndGoesOn(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		value := errors.New("the very value")
		func() {
			defer func() {
				if got := recover(); got != value { //nolint:errorlint // the very value
					t.Errorf("recovered %v", got)
				}
			}()
			_ = l.WithLock(context.Background(), key, lockmw.Policy{}, func(context.Context) error { panic(value) })
		}()
		noKeys(t, c, key, 0)
	})
}

func TestGoexitReleases(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = l.WithLock(context.Background(), key, lockmw.Policy{}, func(context.Context) error {
				runtime.Goexit()
				return nil
			})
			t.Error("Goexit was stopped")
		}()
		<-ended
		noKeys(t, c, key, 0)
	})
}

func TestWrapLocksByTheArgument(t *testing.T) {
	m := redistest.Embedded(t)
	l := testenv.Open(t, m.Client(t))
	errNoOrder := errors.New("no order")
	pay := lockmw.Wrap(l,
		func(order int) (string, error) {
			if order == 0 {
				return "", errNoOrder
			}
			return "order:" + strings.Repeat("I", order), nil
		},
		lockmw.Policy{Prefix: "pay:"},
		func(ctx context.Context, order int) (string, error) {
			if !m.Exists("lock:{pay:order:" + strings.Repeat("I", order) + "}") {
				t.Error("not locked")
			}
			return "paid", nil
		})
	if got, err := pay(context.Background(), 3); got != "paid" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	_, err := pay(context.Background(), 0)
	if !errors.Is(err, lockmw.ErrInvalidKey) || !errors.Is(err, errNoOrder) || !strings.Contains(err.Error(), errNoOrder.Error()) {
		t.Errorf("err = %v", err)
	}
	wantOneLine(t, err)
}

func TestWrapPanicsOnStartUpMistakes(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	key := func(string) (string, error) { return "k", nil }
	fn := func(context.Context, string) (int, error) { return 0, nil }
	for _, tc := range []struct {
		want string
		call func()
	}{
		{"the Locker is nil", func() { lockmw.Wrap(nil, key, lockmw.Policy{}, fn) }},
		{"the key function is nil", func() { lockmw.Wrap(l, nil, lockmw.Policy{}, fn) }},
		{"the wrapped function is nil", func() { lockmw.Wrap[string, int](l, key, lockmw.Policy{}, nil) }},
		{"TTL: 1ns", func() { lockmw.Wrap(l, key, lockmw.Policy{TTL: 1}, fn) }},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, tc.want) {
					t.Errorf("panic %q, want it to say %q", got, tc.want)
				}
			}()
			tc.call()
		}()
	}
}
