package lockmw

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/waitqueue"
)

// A spendingStore carries out a command that may begin something, and loses the answer. The caller's context is spent then.
type spendingStore struct {
	store.Store
	spent *atomic.Bool
}

var errUnheard = &store.Error{Err: errors.New("no answer in time"), Ambiguous: true}

func (s *spendingStore) Recall(ctx context.Context, r store.Request) (store.Answer, error) {
	_, _ = s.Store.Recall(ctx, r)
	s.spent.Store(true)
	return store.Answer{}, errUnheard
}

// Acquire is for calls without a Recall: those of Do are answered.
func (s *spendingStore) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	a, err := s.Store.Acquire(ctx, r)
	if r.Recall != nil {
		return a, err
	}
	s.spent.Store(true)
	return store.Answer{}, errUnheard
}

// A command without an answer may have been carried out. If the caller's context panics as it is asked about that, what the command
// has left is removed all the same: the lock, and of Do the intent of work that has not begun.
func TestAContextThatPanicsAfterACommandWithoutAnAnswer(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, l *Locker) error{
		"Acquire": func(ctx context.Context, l *Locker) error {
			_, _, err := l.Acquire(ctx, "k", Policy{TTL: time.Minute})
			return err
		},
		"Do": func(ctx context.Context, l *Locker) error {
			f := Flight{Policy: Policy{TTL: time.Minute, Wait: 30 * time.Second}, Retain: time.Hour, Crash: Uncertain}
			_, _, err := Do(ctx, l, "k", f, func(context.Context) (string, error) { return "", errors.New("the function runs") })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := redistest.Embedded(t)
			l, err := New(m.Client(t))
			if err != nil {
				t.Fatal(err)
			}
			var spent atomic.Bool
			l.store = &spendingStore{l.store, &spent}
			panicked := make(chan any, 1)
			go func() {
				defer func() { panicked <- recover() }()
				t.Errorf("the call returned %v", call(Mute{context.Background(), &spent}, l))
			}()
			if v := await.Receive(t, "the panic", panicked); v != "spent" {
				t.Errorf("panic: %v", v)
			}
			nothingIsLeft(t, m)
			closed := make(chan error, 1)
			go func() { closed <- l.Close(context.Background()) }()
			if err := await.Receive(t, "Close", closed); err != nil {
				t.Error(err)
			}
		})
	}
}

// An unwaited context panics when it is waited for.
type unwaited struct{ context.Context }

func (unwaited) Done() <-chan struct{} { panic("spent") }

// A doubtedStore is in doubt while it is away: no ping finds out.
type doubtedStore struct {
	store.Store
	away atomic.Bool
}

func (s *doubtedStore) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.away.Load() {
		return store.Answer{}, errAway
	}
	return s.Store.Acquire(ctx, r)
}

func (s *doubtedStore) Ping(ctx context.Context, key string, p store.Progress) error {
	if s.away.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Store.Ping(ctx, key, p)
}

// A call whose time is over has been passed the lock just now. It takes it, or passes it on, before it waits for anything else: where
// its context panics at that, the next one has the lock.
func TestALockThatIsPassedOnAtTheEndOfAWait(t *testing.T) {
	inner, err := New(redistest.Embedded(t).Client(t))
	if err != nil {
		t.Fatal(err)
	}
	o, err := gather(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &doubtedStore{Store: inner.store}
	l := newLocker(s, o)
	waits := Policy{Wait: time.Minute}
	acquire := func() *Lease {
		_, lease, err := l.Acquire(context.Background(), "k", waits)
		if err != nil {
			t.Error(err)
		}
		return lease
	}
	_ = acquire().Release(context.Background())
	await.Until(t, "it listens", func() bool { return l.subscriber.session() != 0 })
	first := acquire()
	waits.FailOpen = true
	c := l.newClaim(unwaited{context.Background()}, "k", waits, time.Now(), nil)
	waits.FailOpen = false
	if !c.enter() {
		t.Fatal("the Locker is closed")
	}
	joined := l.waiters.Join(c.ref, waitqueue.Caller{}, false)
	c.waiter = joined.Waiter
	next := make(chan *Lease, 1)
	go func() { next <- acquire() }()
	await.Until(t, "the next one waits", func() bool { return len(l.waiters.States("k")) == 2 })
	if err := first.Release(context.Background()); err != nil {
		t.Error(err)
	}
	s.away.Store(true)
	if _, _, err := l.Acquire(context.Background(), "other", Policy{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("err = %v, want ErrUnavailable", err)
	}
	func() {
		defer c.ledger.calls.Done()
		defer func() {
			if v := recover(); v != "spent" {
				t.Errorf("panic: %v", v)
			}
			c.withdraw() // as acquire does
		}()
		_, err := c.last()
		t.Errorf("last returned %v", err)
	}()
	s.away.Store(false)
	if err := await.Receive(t, "the next one has the lock", next).Release(context.Background()); err != nil {
		t.Error(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close(context.Background()) }()
	if err := await.Receive(t, "Close", closed); err != nil {
		t.Error(err)
	}
}
