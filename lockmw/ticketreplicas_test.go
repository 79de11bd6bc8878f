package lockmw_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A Resume returns when the replicas know of it, as an Acquire does.
func TestReplicasConfirmAResume(t *testing.T) {
	t.Parallel()
	master, replica := replicated(t)
	here, there := master.Client(t), replica.Client(t)
	l := testenv.Open(t, here, lockmw.WithReplicaAcks(1, 500*time.Millisecond))
	lease := mustAcquire(t, l, "k", lockmw.Policy{Wait: 20 * time.Second})
	ticket := lease.Ticket(time.Hour)
	mustRelease(t, lease)
	const key = "lock:{k}"
	ctx := context.Background()
	tickets := here.Get(ctx, key).Val()
	await.Within(t, 20*time.Second, "the replica knows that the lock was handed on", func() bool { return there.Get(ctx, key).Val() == tickets })
	if err := replica.Stop(); err != nil {
		t.Fatal(err)
	}
	resumed := make(chan *lockmw.Lease, 1)
	go func() {
		_, lease, err := l.Resume(ctx, ticket, lockmw.Policy{Wait: time.Minute})
		if err != nil {
			t.Errorf("Resume = %v", err)
		}
		resumed <- lease
	}()
	await.Within(t, 20*time.Second, "the master has carried it out", func() bool { return here.Get(ctx, key).Val() != tickets })
	unconfirmed := testenv.Open(t, here)
	isSpent(t, unconfirmed, ticket, "while no replica confirms it")
	mustRelease(t, mustAcquire(t, unconfirmed, "other", lockmw.Policy{})) // the master answers whoever asks for no confirmation
	select {
	case <-resumed:
		t.Error("the work goes on, and no replica knows of it")
	default:
	}
	if err := replica.Cont(); err != nil {
		t.Fatal(err)
	}
	goesOn := await.Receive(t, "it goes on", resumed)
	if goesOn == nil {
		return // it was said why
	}
	if at, of := there.Get(ctx, key).Val(), here.Get(ctx, key).Val(); at != of || at == "" {
		t.Errorf("the work goes on, and the replica has %q, want %q", at, of)
	}
	mustRelease(t, goesOn)
}

// A Resume that no replica confirms is refused, and taken back: its ticket is spent.
func TestAResumeThatNoReplicaConfirmsIsTakenBack(t *testing.T) {
	t.Parallel()
	master, replica := replicated(t)
	l := testenv.Open(t, master.Client(t), lockmw.WithReplicaAcks(1, 500*time.Millisecond))
	lease := mustAcquire(t, l, "k", lockmw.Policy{Wait: 20 * time.Second})
	ticket := lease.Ticket(time.Hour)
	mustRelease(t, lease)
	if err := replica.Stop(); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	if _, _, err := l.Resume(context.Background(), ticket, lockmw.Policy{}); !unavailable("0 of 1 replicas")(err) && !unanswered(err, asked) {
		t.Errorf("Resume = %v, want ErrUnavailable that says that no replica has confirmed it", err)
	}
	noKeys(t, master.Client(t), "{k}", 10*time.Second)
	isSpent(t, testenv.Open(t, master.Client(t)), ticket, "when it was taken back")
	if err := replica.Cont(); err != nil {
		t.Fatal(err)
	}
}

// A fail-over forgets that somebody has resumed: the ticket has the lock again, for its time. Whoever comes by it then has a higher fence than
// the one before, who learns of the loss at the next renewal.
func TestAFailOverThatLosesAResumeGivesTheTicketItsLockAgain(t *testing.T) {
	t.Parallel()
	a := oneAddress(t)
	l := testenv.Open(t, a.client(t))
	lease := mustAcquire(t, l, "k", lockmw.Policy{})
	ticket := lease.Ticket(time.Hour)
	mustRelease(t, lease)
	ctx := context.Background()
	here, there := a.master.Client(t), a.replica.Client(t)
	tickets := here.Get(ctx, "lock:{k}").Val()
	await.Within(t, 20*time.Second, "the replica knows that the lock was handed on", func() bool { return there.Get(ctx, "lock:{k}").Val() == tickets })
	var first *lockmw.Lease
	a.replace(t, func(t *testing.T, a *address) {
		t.Helper()
		command(t, a.replica, "REPLICAOF", "NO", "ONE")
		first = mustResume(t, l, ticket, lockmw.Policy{}) // at the old master, which nobody follows any more
		host, port, _ := net.SplitHostPort(a.replica.Addr())
		command(t, a.master, "REPLICAOF", host, port)
	})
	other := testenv.Open(t, a.master.Client(t))
	if h := handedOn(t, other, "k"); h.Left < 50*time.Minute || h.Left > time.Hour {
		t.Errorf("behind the fail-over the ticket has the lock for %v, want what was left of an hour", h.Left)
	}
	second := mustResume(t, other, ticket, lockmw.Policy{Wait: 20 * time.Second})
	if second.Fence() <= first.Fence() {
		t.Errorf("the fence of whoever resumes then is %d, want one above %d", second.Fence(), first.Fence())
	}
	await.Within(t, 30*time.Second, "the first one learns of the loss", func() bool {
		lockmw.RenewAll(l)
		return !first.Valid()
	})
	if cause := context.Cause(first.Context()); !errors.Is(cause, lockmw.ErrLost) {
		t.Errorf("the context of the first one ends with %v, want %v", cause, lockmw.ErrLost)
	}
	if err := first.Release(ctx); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Release of the first one = %v, want %v", err, lockmw.ErrLost)
	}
	if !second.Valid() {
		t.Error("the second one has lost its lock, too")
	}
	mustRelease(t, second)
}
