package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// An invalid key is told before any lock is waited for.
func TestManyKeysAreCheckedFirst(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	mustAcquire(t, l, "a", lockmw.Policy{})
	began := time.Now()
	_, _, err := l.AcquireAll(context.Background(), []string{"a", "b{"}, lockmw.Policy{Wait: 5 * time.Second})
	var refusal *lockmw.AcquireError
	if !errors.Is(err, lockmw.ErrInvalidKey) || !errors.As(err, &refusal) || refusal.Key != "b{" {
		t.Errorf("err = %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("told after %v", took)
	}
}

// A Redis that is silent until the deadline is unavailable, however many keys.
func TestManyKeysOfASilentRedisAreUnavailable(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		client, proxy := proxied(t, s)
		l := testenv.Open(t, client)
		mustRelease(t, mustAcquire(t, l, "a", lockmw.Policy{}))
		proxy.BlackHole(faultproxy.Both)
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, _, err := l.AcquireAll(ctx, []string{"a", "b"}, lockmw.Policy{})
		if took := time.Since(began); took < 300*time.Millisecond || took > 350*time.Millisecond {
			t.Errorf("told after %v, want soon after the deadline", took)
		}
		var refusal *lockmw.AcquireError
		if !errors.Is(err, lockmw.ErrUnavailable) || !errors.As(err, &refusal) {
			t.Errorf("err = %v", err)
		}
	})
}

// Many keys of a Redis that is away take as long as one.
func TestManyKeysFailOpenTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		client, proxy := proxied(t, s)
		l := testenv.Open(t, client)
		mustRelease(t, mustAcquire(t, l, "a", lockmw.Policy{}))
		proxy.BlackHole(faultproxy.Both)
		began := time.Now()
		_, lease, err := l.AcquireAll(context.Background(), []string{"a", "b", "c", "d", "e"}, lockmw.Policy{FailOpen: true})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 300*time.Millisecond || took > 1250*time.Millisecond {
			t.Errorf("ran without the locks after %v", took)
		}
		mustRelease(t, lease)
	})
}

func TestManyKeysAreReleasedWithinOneBudget(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	client, proxy := proxied(t, redistest.Embedded(t))
	l := testenv.Open(t, client)
	_, lease, err := l.AcquireAll(context.Background(), []string{"a", "b", "c", "d", "e"}, lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	proxy.BlackHole(faultproxy.Both)
	began := time.Now()
	if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("Release = %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("released after %v", took)
	}
}

// A joined part of many keys keeps its key taken too.
func TestManyKeysKeepAJoinedPartForMinHold(t *testing.T) {
	t.Parallel()
	m := redistest.Embedded(t)
	l := testenv.Open(t, m.Client(t))
	outer := mustAcquire(t, l, "a", lockmw.Policy{})
	_, lease, err := l.AcquireAll(outer.Context(), []string{"a", "b"}, lockmw.Policy{Reentrant: true, MinHold: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, lease)
	mustRelease(t, outer)
	for _, key := range []string{"lock:{a}", "lock:{b}"} {
		if !m.Exists(key) {
			t.Errorf("%s was released before its MinHold", key)
		}
	}
}

// A key that is asked for after another one, which had to be waited for, is probably free:
// it is taken without a script, as if it were asked for alone.
func TestKeysAfterOneThatWasWaitedForNeedNoScript(t *testing.T) {
	client, proxy := proxied(t, redistest.Shared(t))
	l, other, prefix := testenv.Open(t, client), testenv.Open(t, redistest.Shared(t).Client(t)), redistest.Prefix(t)
	mustRelease(t, mustAcquire(t, l, prefix+"first", lockmw.Policy{})) // it knows the server and its clock
	held := mustAcquire(t, other, prefix+"a", lockmw.Policy{})
	got := make(chan *lockmw.Lease, 1)
	go func() {
		_, lease, err := l.AcquireAll(context.Background(), []string{prefix + "a", prefix + "b"}, lockmw.Policy{Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	c := redistest.Shared(t).Client(t)
	await.Within(t, 20*time.Second, "it waits", func() bool { return queued(t, c, prefix+"a") == 1 })
	proxy.ResetCommands()
	mustRelease(t, held)
	lease := <-got
	if n := proxy.Commands()["SET"]; n != 1 {
		t.Errorf("%d SETs, want 1: %v", n, proxy.Commands())
	}
	mustRelease(t, lease)
}
