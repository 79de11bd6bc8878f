package lockmw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// leaseFor takes a lock in an embedded Redis.
func leaseFor(t *testing.T, p Policy) *Lease {
	t.Helper()
	l, err := New(redistest.Embedded(t).Client(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ctx)
	})
	_, lease, err := l.Acquire(context.Background(), "k", p)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// besideAHolder returns two Lockers over one embedded Redis. The other one holds "k"
// until the test ends.
func besideAHolder(t *testing.T) (l, other *Locker) {
	t.Helper()
	return besideAHolderOn(t, redistest.Embedded(t))
}

// besideAHolderOn is besideAHolder over a Redis of the test's, which may be in memory, as for a bubble.
func besideAHolderOn(t *testing.T, m *redistest.Mini) (l, other *Locker) {
	t.Helper()
	client := m.Client(t)
	other, err := New(client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close(context.Background()) })
	_, holder, err := other.Acquire(context.Background(), "k", Policy{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Release(context.Background()) })
	if l, err = New(client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l, other
}

// A slowStore leaves its first command on the way until it is told.
type slowStore struct {
	store.Store
	first *store.Request
}

func (s *slowStore) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.first == nil {
		s.first = &r
		return store.Answer{}, &store.Error{Err: errors.New("no answer in time"), Ambiguous: true}
	}
	return s.Store.Acquire(ctx, r)
}

// A command that timed out is still on its way when a second one is granted
// and the lease is released. Then it arrives, and takes the free lock for
// nobody.
func TestQuestionThatArrivesAfterTheReleaseTakesNothing(t *testing.T) {
	m := redistest.Embedded(t)
	l, err := New(m.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	slow := &slowStore{Store: l.store}
	l.store = slow
	_, lease, err := l.Acquire(context.Background(), "k", Policy{Wait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // the first clean-up finds nothing
	// It was sent in time. A machine that stands still may have used that time up here.
	slow.first.Until = time.Now().Add(10 * time.Second)
	if a, err := slow.Store.Acquire(context.Background(), *slow.first); err != nil || !a.Granted {
		t.Fatalf("the late command: %+v, %v, want that it takes the lock", a, err)
	}
	for end := time.Now().Add(5 * time.Second); m.Exists("lock:{k}"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the lock is taken by nobody")
		}
	}
}

// A hangingStore answers no command about a lock in time, but the first ones. All
// else is answered.
type hangingStore struct {
	store.Store
	first atomic.Int64
}

func (s *hangingStore) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.first.Add(-1) >= 0 {
		return s.Store.Acquire(ctx, r)
	}
	select {
	case <-time.After(time.Until(r.Until)):
		return store.Answer{}, &store.Error{Err: errors.New("i/o timeout"), Ambiguous: true, Evidence: store.Silent}
	case <-ctx.Done():
		return store.Answer{}, &store.Error{Err: ctx.Err(), Ambiguous: true}
	}
}

// A policy that waits for less than a second gives a command less than that. A
// server far away may need more, on a connection that has to be made: as long as
// it answers others it is well.
func TestAQuestionCutShortByThePolicyIsNoOutage(t *testing.T) {
	for _, tc := range []struct {
		policy Policy
		first  int64 // questions are answered
		want   error
	}{
		{Policy{Wait: 100 * time.Millisecond}, 0, ErrNotAcquired},
		{Policy{Wait: 100 * time.Millisecond, FailOpen: true}, 0, ErrNotAcquired},
		{Policy{Wait: 400 * time.Millisecond}, 0, ErrNotAcquired},
		{Policy{Wait: 1500 * time.Millisecond}, 1, ErrNotAcquired}, // others have it, as was said at first
		{Policy{Wait: time.Second}, 0, ErrUnavailable},             // a second without an answer is no hiccup
		{Policy{}, 0, ErrUnavailable},
	} {
		t.Run(fmt.Sprintf("%+v", tc.policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := besideAHolderOn(t, redistest.InMemory(t))
				hanging := &hangingStore{Store: l.store}
				hanging.first.Store(tc.first)
				l.store = hanging
				_, lease, err := l.Acquire(context.Background(), "k", tc.policy)
				if lease != nil {
					_ = lease.Release(context.Background())
				}
				if !errors.Is(err, tc.want) || errors.Is(err, ErrNotAcquired) && errors.Is(err, ErrUnavailable) {
					t.Errorf("err = %v, want %v", err, tc.want)
				}
			})
		})
	}
}

// A restartingStore is one whose server restarts while the first command about a lock is under way, and answers nothing then.
type restartingStore struct {
	store.Store
	in    time.Duration
	asked atomic.Int64
}

func (s *restartingStore) ask(until time.Time) error {
	if s.asked.Add(1) == 1 {
		time.Sleep(s.in)
		return &store.Error{Err: io.EOF, Ambiguous: true, Stale: true}
	}
	time.Sleep(time.Until(until))
	return &store.Error{Err: errors.New("i/o timeout"), Ambiguous: true, Evidence: store.Silent}
}

func (s *restartingStore) Acquire(_ context.Context, r store.Request) (store.Answer, error) {
	return store.Answer{}, s.ask(r.Until)
}

func (s *restartingStore) AcquireAll(_ context.Context, _ []store.Ref, until time.Time, _ func(bool, error)) ([]int64, error) {
	return nil, s.ask(until)
}

// A command that is sent once more has no second of its own where the call may not wait: it has what is left of the first one's, or half of one.
func TestACommandThatIsSentOnceMoreHasWhatIsLeftOfASecond(t *testing.T) {
	for restarts, most := range map[time.Duration]time.Duration{0: time.Second, 300 * time.Millisecond: time.Second, 900 * time.Millisecond: 1400 * time.Millisecond} {
		for keys := 1; keys <= 2; keys++ {
			synctest.Test(t, func(t *testing.T) {
				l, _ := besideAHolderOn(t, redistest.InMemory(t))
				l.store = &restartingStore{Store: l.store, in: restarts}
				began := time.Now()
				_, _, err := l.AcquireAll(context.Background(), []string{"a", "b"}[:keys], Policy{})
				if took := time.Since(began); !errors.Is(err, ErrUnavailable) || took != most {
					t.Errorf("%d keys, a restart after %v: %v after %v, want ErrUnavailable after %v", keys, restarts, err, took, most)
				}
			})
		}
	}
}

// A leavingStore carries out the first command about a lock. Whoever has put the
// second one leaves before there is a connection for it.
type leavingStore struct {
	store.Store
	leave func()
	asked atomic.Int64
}

func (s *leavingStore) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.asked.Add(1) == 1 {
		return s.Store.Acquire(ctx, r)
	}
	s.leave()
	r.Late(store.Answer{}, &store.Error{Err: errors.New("no connection")})
	return store.Answer{}, &store.Error{Err: ctx.Err(), Ambiguous: true, Pending: true}
}

// Who stands in the queue, and leaves while its next command has no connection, has
// sent nothing then. Its place is given up all the same.
func TestAPlaceIsGivenUpByWhoseNextQuestionIsNotSent(t *testing.T) {
	t.Parallel()
	l, other := besideAHolder(t)
	ctx, leave := context.WithCancel(context.Background())
	l.store = &leavingStore{Store: l.store, leave: leave}
	if _, _, err := l.Acquire(ctx, "k", Policy{Wait: time.Minute}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want one about the context", err)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		info, err := other.Inspect(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if info.Waiting == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d have a place in the queue, and nobody waits", info.Waiting)
		}
	}
}

// A pendingStore says of its first command that its outcome is told later, and tells it when it is asked to.
type pendingStore struct {
	store.Store
	tell func() // nil: nothing was asked for
}

func (s *pendingStore) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.tell == nil {
		s.tell = func() {
			r.Late(store.Answer{}, &store.Error{Err: errors.New("the connection has broken"), Ambiguous: true})
		}
		return store.Answer{}, &store.Error{Err: errors.New("no answer in time"), Ambiguous: true, Pending: true}
	}
	return s.Store.Acquire(ctx, r)
}

// A command may be on its way still when the next one of its call is answered. Close waits for both, and for no more. The stores
// that there are do not have that: a command is Pending where the caller's context has ended, and then its call ends.
func TestCloseWaitsForEachCommandOfACall(t *testing.T) {
	m := redistest.Embedded(t)
	l, err := New(m.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	pending := &pendingStore{Store: l.store}
	l.store = pending
	_, lease, err := l.Acquire(context.Background(), "k", Policy{Wait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close(context.Background()) }()
	pending.tell()
	if err := await.Receive(t, "Close returns", closed); err != nil {
		t.Error(err)
	}
}

// A call that waits for itself, because it has handed on another context, finds one holder for all of
// its wait. In ordinary contention holders change, and the hint would send people looking for a mistake.
func TestTheHintIsForOneHolderOfAllOfTheWait(t *testing.T) {
	for _, tc := range []struct {
		age      time.Duration
		selfMade bool
		want     string
	}{
		{500 * time.Millisecond, false, "lock not acquired: held by another call of this process for 500ms, and until the wait was over"},
		{3 * time.Second, true, "lock not acquired: held by another call of this process for 3s, and until the wait was over: if that call waits for this one, its context was not handed on"},
	} {
		if got := heldHere(errUsedUp, tc.age, tc.selfMade).Error(); !strings.HasSuffix(got, tc.want) {
			t.Errorf("after 2s, held for %v: %q, want %q", tc.age, got, tc.want)
		}
	}
}
