package lockmw

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/waitqueue"
)

// A lock is lost when it has left one lease and has not come to the next one yet. The next
// one's caller waits on, as the first, and asks Redis.
func TestALockThatIsLostOnItsWayToTheNextLease(t *testing.T) {
	l, err := New(redistest.Embedded(t).Client(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ended)
	}()
	_, lease, err := l.Acquire(context.Background(), "k", Policy{Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c := l.newClaim(context.Background(), "k", Policy{Wait: time.Minute}, time.Now(), nil)
	joined := l.waiters.Join(c.ref, waitqueue.Caller{}, true)
	if c.waiter = joined.Waiter; !joined.Rests {
		t.Fatal("it need not ask")
	}
	held := lease.tenure()
	held.nextFence(time.Now()) // the lease has left
	if !l.waiters.PassOn("k", held, waitqueue.Grant{Token: held.ref.Token, TTL: held.ref.TTL, Tenure: held}) {
		t.Fatal("the lock was not passed on")
	}
	held.lostInStore(&RevokedError{})
	<-c.waiter.Grants
	if got, want := c.takeOver(held, lease.fence+1), goesOn(grantUseless); got != want {
		t.Errorf("takeOver = %+v, want %+v", got, want)
	}
	if got, want := l.waiters.States("k"), []waitqueue.State{waitqueue.Asking}; !slices.Equal(got, want) {
		t.Errorf("the waiters are %v, want %v", got, want)
	}
	if leases, tenures := l.allLeases(), l.tenuresOf("k"); !slices.Equal(leases, []*Lease{lease}) || len(tenures) > 0 {
		t.Errorf("the Locker has %d leases and %d tenures", len(leases), len(tenures))
	}
	c.withdraw()
	if err := lease.Release(context.Background()); err != nil {
		t.Logf("release = %v", err)
	}
}

// A nested call has found the outer lease held, and joins it when that has passed the lock on: its MinHold ends with the
// outer lease. It must not keep the key taken after the release of the next one, which has none.
func TestTheMinHoldOfALeaseThatIsOverIsNotThatOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(redistest.InMemory(t).Client(t))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		wait := Policy{Wait: time.Minute}
		if _, first, err := l.Acquire(t.Context(), "k", wait); err != nil {
			t.Fatal(err)
		} else if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // it has a subscription by now, so it passes locks on
		ctx, outer, err := l.Acquire(t.Context(), "k", wait)
		if err != nil {
			t.Fatal(err)
		}
		nested := l.newClaim(ctx, "k", Policy{Reentrant: true, MinHold: time.Minute}, time.Now(), nil)
		if found, err := nested.check(); found != outer || err != nil {
			t.Fatalf("the nested call finds %v, %v", found, err)
		}
		next := l.newClaim(t.Context(), "k", wait, time.Now(), nil)
		next.waiter = l.waiters.Join(next.ref, waitqueue.Caller{}, true).Waiter
		time.Sleep(50 * time.Millisecond) // so that there is a fence for the next one, which must be below the server's clock
		if err := outer.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := next.handedOver(<-next.waiter.Grants)
		if o.lease == nil || o.lease.tenure() != outer.tenure() {
			t.Fatalf("the lock was not passed on: %+v", o)
		}
		joined := outer.join(&nested)
		if err := joined.Release(t.Context()); err == nil {
			t.Error("a lease that has joined one that was over is released without an error")
		}
		if err := o.lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, again, err := l.Acquire(t.Context(), "k", Policy{}); err != nil {
			t.Errorf("the key is not free: %v", err)
		} else if err := again.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A call that has asked before, together with others, may have left something in Redis
// under its own token. The lease that it gets has another one.
func TestALeaseThatFollowsAnotherLeavesNothingBehind(t *testing.T) {
	l, err := New(redistest.Embedded(t).Client(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ended)
	}()
	ctx := context.Background()
	_, lease, err := l.Acquire(ctx, "k", Policy{Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c := l.newClaim(ctx, "k", Policy{Wait: time.Minute}, time.Now(), nil)
	c.ref.Token, c.residue = l.store.NewToken(""), certain
	if _, err := l.store.Acquire(ctx, store.Request{Ref: c.ref, Join: store.Wait}); err != nil {
		t.Fatal(err)
	}
	c.waiter = l.waiters.Join(c.ref, waitqueue.Caller{}, true).Waiter
	held := lease.tenure()
	held.nextFence(time.Now())
	if !l.waiters.PassOn("k", held, waitqueue.Grant{Token: held.ref.Token, TTL: held.ref.TTL, Tenure: held}) {
		t.Fatal("the lock was not passed on")
	}
	<-c.waiter.Grants
	next := c.takeOver(held, lease.fence+1).lease
	if next == nil {
		t.Fatal("takeOver gave no lease")
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		info, err := l.Inspect(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		if info.Waiting == 0 && info.Held {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v: the place of the first command is still there", info)
		}
	}
	l.forget(lease) // it was passed on without a release
	if err := next.Release(ctx); err != nil {
		t.Error(err)
	}
}
