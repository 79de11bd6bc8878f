package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestNestedAcquireJoins(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		p := lockmw.Policy{Reentrant: true}
		outer := mustAcquire(t, l, key, p)
		_, inner, err := l.Acquire(outer.Context(), key, p)
		if err != nil {
			t.Fatal(err)
		}
		_, deepest, err := l.Acquire(inner.Context(), key, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, lease := range []*lockmw.Lease{inner, deepest} {
			if lease.Fence() != outer.Fence() || lease.Key() != key || !lease.Valid() || lease.ValidUntil().IsZero() {
				t.Errorf("a joined lease has fence %d and key %q, want %d and %q", lease.Fence(), lease.Key(), outer.Fence(), key)
			}
		}
		if got, ok := lockmw.FromContext(deepest.Context()); !ok || got != deepest {
			t.Error("the innermost lease is not found")
		}
		mustRelease(t, deepest)
		mustRelease(t, inner)
		if !errors.Is(context.Cause(inner.Context()), lockmw.ErrReleased) {
			t.Errorf("cause = %v, want ErrReleased", context.Cause(inner.Context()))
		}
		if outer.Context().Err() != nil || !outer.Valid() {
			t.Error("a joined lease's release ended the outer one")
		}
		if _, _, err := other.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("the lock after a joined lease's release: %v, want ErrNotAcquired", err)
		}
		mustRelease(t, outer)
		noKeys(t, c, key, 0)
	})
}

// Work that was cut off from the caller's end is told of the loss all the same.
func TestLossEndsJoinedLeasesToo(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		p := lockmw.Policy{TTL: 600 * time.Millisecond, Reentrant: true}
		outer := mustAcquire(t, l, key, p)
		var inner []*lockmw.Lease
		for _, ctx := range []context.Context{outer.Context(), context.WithoutCancel(outer.Context())} {
			_, lease, err := l.Acquire(ctx, key, p)
			if err != nil {
				t.Fatal(err)
			}
			inner = append(inner, lease)
		}
		c.Del(context.Background(), "lock:{"+key+"}")
		lockmw.RenewAll(l)
		for i, lease := range append(inner, outer) {
			select {
			case <-lease.Context().Done():
			case <-time.After(10 * time.Second):
				t.Fatalf("lease %d goes on after the loss", i)
			}
			if cause := context.Cause(lease.Context()); !errors.Is(cause, lockmw.ErrLost) {
				t.Errorf("lease %d: cause = %v, want ErrLost", i, cause)
			}
			if lease.Valid() {
				t.Errorf("lease %d is valid after the loss", i)
			}
			if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
				t.Errorf("lease %d: release = %v, want ErrLost", i, err)
			}
		}
		noKeys(t, c, key, 2*time.Second)
	})
}

func TestOuterReleaseEndsJoinedLeases(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	p := lockmw.Policy{Reentrant: true}
	outer := mustAcquire(t, l, "k", p)
	_, inner, err := l.Acquire(context.WithoutCancel(outer.Context()), "k", p)
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, outer)
	select {
	case <-inner.Context().Done():
	case <-time.After(10 * time.Second):
		t.Fatal("a joined lease goes on without the lock")
	}
	if inner.Valid() {
		t.Error("a joined lease is valid without the lock")
	}
	_ = inner.Release(context.Background()) // its lock is gone, one way or the other
}

// It would wait for itself for ever.
func TestAReaderCannotBecomeAWriter(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	l := testenv.Open(t, c)
	policies := []lockmw.Policy{{}, {Mode: lockmw.Shared}, {Permits: 2}}
	for i, has := range policies {
		outer := mustAcquire(t, l, "k", has)
		for j, wants := range policies {
			wants.Reentrant, wants.Wait = true, time.Minute
			_, inner, err := l.Acquire(outer.Context(), "k", wants)
			if joins := i == 0 || i == j; joins != (err == nil) || !joins && !errors.Is(err, lockmw.ErrReentrant) {
				t.Errorf("%s within %s: %v, want to join %v", name(wants), name(has), err, joins)
			}
			if err == nil {
				mustRelease(t, inner)
			}
		}
		mustRelease(t, outer)
	}
	noKeys(t, c, "k", 0)
}

func TestMaxHoldOfAJoinedLeaseIsItsOwn(t *testing.T) {
	l := testenv.Open(t, redistest.Embedded(t).Client(t))
	outer := mustAcquire(t, l, "k", lockmw.Policy{})
	_, inner, err := l.Acquire(outer.Context(), "k", lockmw.Policy{Reentrant: true, MaxHold: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	<-inner.Context().Done()
	if cause := context.Cause(inner.Context()); !errors.Is(cause, lockmw.ErrMaxHold) {
		t.Errorf("cause = %v, want ErrMaxHold", cause)
	}
	if outer.Context().Err() != nil || !outer.Valid() {
		t.Error("it ended the outer lease")
	}
	mustRelease(t, inner)
	mustRelease(t, outer)
}
