package lockmw

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// Parts that failed open are leases like others: the Locker knows each.
func TestManyKeysOfAQuorumThatIsAwayAreLeases(t *testing.T) {
	var clients []redis.UniversalClient
	for i := range 3 {
		clients = append(clients, redistest.NewClient(t, "127.0.0.1:"+strconv.Itoa(1+i)))
	}
	l, err := NewQuorum(clients)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.Background()) }()
	_, lease, err := l.AcquireAll(context.Background(), []string{"a", "b", "c"}, Policy{FailOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(l.allLeases()); n != 3 {
		t.Errorf("the Locker has %d leases, want 3", n)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// returning is a store that is away until it is back.
type returning struct {
	store.Store
	tokens   int
	together int // questions for several keys
	back     atomic.Bool
}

var errAway = &store.Error{Err: errors.New("away"), Evidence: store.Unreachable}

func (s *returning) NewToken(string) string { s.tokens++; return strconv.Itoa(s.tokens) }

func (s *returning) Acquire(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, errAway
}

func (s *returning) AcquireAll(_ context.Context, refs []store.Ref, _ time.Time, _ func(bool, error)) ([]int64, error) {
	s.together++
	if !s.back.Load() {
		return nil, errAway
	}
	return make([]int64, len(refs)), nil
}

func (s *returning) Server(string) string { return "" }

func (s *returning) Ping(context.Context, string, store.Progress) error {
	if !s.back.Load() {
		return errAway
	}
	return nil
}

func (s *returning) Release(context.Context, store.Give) (store.Released, store.Answer, error) {
	return store.Freed, store.Answer{}, nil
}
func (s *returning) TakesSeveral() bool                             { return true }
func (s *returning) Queues() bool                                   { return false }
func (s *returning) EvictionPolicy(context.Context) (string, error) { return "noeviction", nil }
func (s *returning) Listen(context.Context, store.Listener) error   { return nil }
func (s *returning) Close() error                                   { return nil }

// Redis may be back when the first of many keys has used up the wait and failed
// open: the others are asked for.
func TestManyKeysAreAskedForAfterOneHasFailedOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(returning)
		o, err := gather([]Option{WithObserver(func(_ context.Context, e Event) {
			if e.Kind == EventFailedOpen {
				s.back.Store(true)
				time.Sleep(500 * time.Millisecond) // the Locker finds out
			}
		})})
		if err != nil {
			t.Fatal(err)
		}
		l := newLocker(s, o)
		_, lease, err := l.AcquireAll(context.Background(), []string{"a", "b", "c"}, Policy{Wait: time.Second, FailOpen: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range lease.has.reliesOn() {
			if open := i == 0; part.runsWithout() != open {
				t.Errorf("part %d failed open: %v, want %v", i, part.runsWithout(), open)
			}
		}
		if s.together != 2 {
			t.Errorf("all were asked for together %d times, want 2", s.together)
		}
		if err := errors.Join(lease.Release(context.Background()), l.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// An unheardStore carries out the command for several keys, but its answer does not
// come. Nothing is cleaned up meanwhile. While it is away, it answers nothing else.
type unheardStore struct {
	store.Store
	stop      chan struct{}
	away      atomic.Bool
	meanwhile func()                // before the answer is given up; nil: nothing
	refuse    func(key string) bool // a command about one key; nil: none
}

func (s *unheardStore) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	switch {
	case s.away.Load():
		return store.Answer{}, errAway
	case s.refuse != nil && s.refuse(r.Key):
		return store.Answer{}, &store.Error{Err: errors.New("WRONGTYPE"), Permanent: true, Evidence: store.Answered}
	}
	return s.Store.Acquire(ctx, r)
}

func (s *unheardStore) Ping(context.Context, string, store.Progress) error {
	if s.away.Load() {
		return errAway
	}
	return nil
}

func (s *unheardStore) Server(string) string { return "" }

func (s *unheardStore) AcquireAll(ctx context.Context, refs []store.Ref, until time.Time, late func(bool, error)) ([]int64, error) {
	if _, err := s.Store.AcquireAll(ctx, refs, until, late); err != nil {
		return nil, err
	}
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return nil, &store.Error{Err: errors.New("no answer in time"), Ambiguous: true, Evidence: store.Silent}
}

func (s *unheardStore) Remove(ctx context.Context, batch []store.Removal) {
	<-s.stop
	s.Store.Remove(ctx, batch)
}

// Whoever may have the lock already, by a command for several keys without an answer, does not rest behind those of this Locker who
// wait for it: it asks, and has it. Otherwise all would wait until the TTL is over.
func TestManyKeysAreHadAlthoughOthersOfTheLockerWait(t *testing.T) {
	t.Parallel()
	_, l, s, end := unheardLocker(t)
	defer end()
	waits := make(chan error, 1)
	s.meanwhile = func() {
		go func() {
			_, lease, err := l.Acquire(context.Background(), "a", Policy{Wait: time.Minute})
			if err == nil {
				err = lease.Release(context.Background())
			}
			waits <- err
		}()
		await.Until(t, "somebody waits", func() bool { return len(l.waiters.CountByName()) == 1 })
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, lease, err := l.AcquireAll(ctx, []string{"a", "b", "c"}, Policy{Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
	if err := await.Receive(t, "the other one has had its turn", waits); err != nil {
		t.Error(err)
	}
}

// Keys that a command without an answer has got are not held by others: each is
// asked for with the same token.
func TestManyKeysAreHadWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	m, l, _, end := unheardLocker(t)
	_, lease, err := l.AcquireAll(context.Background(), []string{"a", "b", "c"}, Policy{Wait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	end()
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
	// One of the keys is somebody's: the others are given back.
	_, lease, err = l.AcquireAll(context.Background(), []string{"b"}, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.AcquireAll(context.Background(), []string{"a", "b", "c"}, Policy{Wait: 50 * time.Millisecond}); !errors.Is(err, ErrNotAcquired) {
		t.Errorf("err = %v, want ErrNotAcquired", err)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
	nothingIsLeft(t, m)
}

// An observer is told of the first of many keys, and closes the Locker. By then nobody may have to give back any more what a command
// without an answer has got, or Close would say that nothing is left, and the other keys would stay until their TTL is over.
func TestCloseWhileAnObserverIsToldOfManyKeysWhoseAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *Locker
		var end func()
		var once sync.Once
		m := redistest.InMemory(t)
		observed := WithObserver(func(_ context.Context, e Event) {
			if e.Kind == EventAcquired {
				once.Do(func() {
					end()
					ctx, cancel := context.WithCancel(context.Background())
					cancel()
					if err := l.Close(ctx); err != nil {
						t.Errorf("Close = %v", err)
					}
					if left := m.Keys(); len(left) > 0 {
						t.Errorf("left after Close: %q", left)
					}
				})
			}
		})
		l, _, end = unheardLockerOn(t, m, observed)
		_, lease, err := l.AcquireAll(context.Background(), []string{"a", "b", "c"}, Policy{TTL: time.Minute, Wait: time.Minute})
		if err == nil {
			err = lease.Release(context.Background())
		}
		if !errors.Is(err, ErrLost) && !errors.Is(err, ErrClosed) {
			t.Errorf("err = %v, want that the Locker was closed", err)
		}
		nothingIsLeft(t, m)
	})
}

// Each of many keys has its note written before the command for all, and not again where that had no answer: Close waits for the call
// by then, and is not to wait for a note.
func TestTheNotesOfManyKeysWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	var notes atomic.Int64
	_, l, _, end := unheardLocker(t, WithNote(func(context.Context) string { return strconv.FormatInt(notes.Add(1), 10) }))
	defer end()
	_, lease, err := l.AcquireAll(context.Background(), []string{"a", "b"}, Policy{Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := lease.has.reliesOn()[0].note, lease.has.reliesOn()[1].note; a != "1" || b != "2" || notes.Load() != 2 {
		t.Errorf("%d notes were written, and those of the keys are %q and %q", notes.Load(), a, b)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// A watching context calls then when it is asked for its Err.
type watching struct {
	context.Context
	then func()
}

func (w watching) Err() error {
	w.then()
	return w.Context.Err()
}

// Close comes as the second of many keys has been refused. It waits until what a command without an answer has got of the third is
// about to be removed, or it would say that nothing is left, and the key would stay until its TTL is over.
func TestCloseAsOneOfManyKeysIsRefusedWhoseAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.InMemory(t)
		l, s, end := unheardLockerOn(t, m)
		var refused bool
		s.refuse = func(key string) bool {
			refused = refused || key == "b"
			return key == "b"
		}
		closed := make(chan error, 1)
		var begins sync.Once
		ctx := watching{context.Background(), func() {
			if !refused {
				return
			}
			begins.Do(func() {
				end()
				go func() {
					over, cancel := context.WithCancel(context.Background())
					cancel()
					err := l.Close(over)
					if left := m.Keys(); len(left) > 0 {
						t.Errorf("left after Close: %q", left)
					}
					closed <- err
				}()
				time.Sleep(10 * time.Second) // Close goes as far as it can
			})
		}}
		if _, _, err := l.AcquireAll(ctx, []string{"a", "b", "c"}, Policy{TTL: time.Minute, Wait: time.Minute}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("err = %v, want ErrUnavailable", err)
		}
		if err := await.Receive(t, "Close", closed); err != nil {
			t.Error(err)
		}
	})
}

// Keys that failed open although an unheard command had got them are given back, each.
func TestManyKeysThatFailOpenAreGivenBack(t *testing.T) {
	t.Parallel()
	m, l, unheard, end := unheardLocker(t)
	unheard.away.Store(true)
	_, lease, err := l.AcquireAll(context.Background(), []string{"a", "b", "c"}, Policy{Wait: 500 * time.Millisecond, FailOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	unheard.away.Store(false)
	end()
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
	nothingIsLeft(t, m)
}

// unheardLocker returns a Locker over an unheardStore, which cleans up from the call of
// end on.
func unheardLocker(t *testing.T, opts ...Option) (m *redistest.Mini, l *Locker, s *unheardStore, end func()) {
	t.Helper()
	m = redistest.Embedded(t)
	l, s, end = unheardLockerOn(t, m, opts...)
	return m, l, s, end
}

func unheardLockerOn(t *testing.T, m *redistest.Mini, opts ...Option) (l *Locker, s *unheardStore, end func()) {
	t.Helper()
	inner, err := New(m.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	o, err := gather(opts)
	if err != nil {
		t.Fatal(err)
	}
	s = &unheardStore{Store: inner.store, stop: make(chan struct{})}
	l = newLocker(s, o)
	end = sync.OnceFunc(func() { close(s.stop) })
	t.Cleanup(func() {
		end()
		_ = l.Close(context.Background())
	})
	return l, s, end
}

func nothingIsLeft(t *testing.T, m *redistest.Mini) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); len(m.Keys()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %q", m.Keys())
		}
	}
}

// A oneByOne is a store that takes no several keys in one step, and is not asked to.
type oneByOne struct {
	returning
	t *testing.T
}

func (*oneByOne) TakesSeveral() bool { return false }

func (s *oneByOne) AcquireAll(context.Context, []store.Ref, time.Time, func(bool, error)) ([]int64, error) {
	s.t.Error("the store was asked for several keys in one step")
	return nil, nil
}

// Such a store is asked for one key after the other. Nothing that was not sent counts as an answer of a server
// that is away.
func TestManyKeysOfAStoreThatTakesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := gather(nil)
		if err != nil {
			t.Fatal(err)
		}
		l := newLocker(&oneByOne{t: t}, o)
		for began := time.Now(); time.Since(began) < 2*time.Second; time.Sleep(100 * time.Millisecond) {
			if _, _, err := l.AcquireAll(context.Background(), []string{"a", "b"}, Policy{}); !errors.Is(err, ErrUnavailable) {
				t.Errorf("AcquireAll = %v, want ErrUnavailable", err)
			}
		}
		if p := l.outage.Prospect("a"); p.Reach != outage.Away {
			t.Errorf("the server is %v after two seconds, want it away", p.Reach)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// While a server cannot be reached no command for several keys is sent. So it counts as no answer, either.
func TestManyKeysThatWereNotAskedForTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := gather(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := new(returning)
		l := newLocker(s, o)
		if _, _, err := l.Acquire(context.Background(), "a", Policy{}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("err = %v, want ErrUnavailable", err)
		}
		synctest.Wait() // for the ping
		if p := l.outage.Prospect("a"); p.Reach != outage.Suspected {
			t.Errorf("the server is %v, want it suspected", p.Reach)
		}
		b := &bundle{locker: l}
		a := l.newClaim(context.Background(), "a", Policy{}, time.Now(), nil)
		if _, _ = b.takeTogether([]*claim{&a}); s.together > 0 || a.reached {
			t.Errorf("asked for together %d times, answered: %v", s.together, a.reached)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// A key that was lost is why a call for many ends, unless its caller has left, or the Locker is closed.
func TestWhyManyKeysEndOfWhichOneIsLost(t *testing.T) {
	lease := leaseFor(t, Policy{})
	b := &bundle{parts: []*Lease{lease}}
	ended, end := context.WithCancel(context.Background())
	end()
	if err := b.lostMeanwhile(context.Background(), errHeld); !errors.Is(err, errHeld) {
		t.Errorf("err = %v of a lock that is held, want %v", err, errHeld)
	}
	lease.tenure().lostInStore(errNotHeld)
	for _, tt := range []struct {
		ctx       context.Context
		err, want error
	}{
		{context.Background(), errHeld, ErrUnavailable},
		{context.Background(), ErrClosed, ErrClosed},
		{ended, errHeld, errHeld},
	} {
		if err := b.lostMeanwhile(tt.ctx, tt.err); !errors.Is(err, tt.want) {
			t.Errorf("err = %v in the place of %v, want %v", err, tt.err, tt.want)
		}
	}
}
