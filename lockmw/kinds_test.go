package lockmw_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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

func TestReadersBehindAWriterEnterTogether(t *testing.T) {
	s := redistest.Shared(t)
	key, c := redistest.Prefix(t), s.Client(t)
	lockers := []*lockmw.Locker{testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))}
	writer := mustAcquire(t, lockers[0], key, lockmw.Policy{})
	const readers = 60
	p := lockmw.Policy{Mode: lockmw.Shared, Wait: time.Minute}
	in := make(chan time.Time, readers)
	all := make(chan struct{}) // closed when all are inside
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			_, lease, err := lockers[i%2].Acquire(context.Background(), key, p)
			in <- time.Now()
			if err != nil {
				t.Error(err)
				return
			}
			<-all
			if err := lease.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	await.Within(t, 20*time.Second, "all readers wait", func() bool { return queued(t, c, key) == readers })
	released := time.Now()
	mustRelease(t, writer)
	var last time.Duration
	for i := range readers {
		select {
		case at := <-in:
			last = max(last, at.Sub(released))
		case <-time.After(20 * time.Second):
			t.Errorf("%d of %d readers got in while those stayed", i, readers)
		}
		if t.Failed() {
			break
		}
	}
	close(all)
	wg.Wait()
	t.Logf("%d readers were in together %v after the writer's release", readers, last)
	if last > 2*time.Second+machine.Between(released, time.Now()) { // one after the other takes longer: each process asks every 100 ms at most
		t.Errorf("the last reader was in after %v", last)
	}
	noKeys(t, c, key, time.Second)
}

func TestWriterEntersAfterTheReadersThatCameBeforeIt(t *testing.T) {
	s := redistest.Shared(t)
	key, c := redistest.Prefix(t), s.Client(t)
	lockers := []*lockmw.Locker{testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))}
	read := lockmw.Policy{Mode: lockmw.Shared, Wait: time.Minute}
	var before []*lockmw.Lease
	for i := range 3 {
		before = append(before, mustAcquire(t, lockers[i%2], key, read))
	}
	var mu sync.Mutex
	var entered []string
	var inside atomic.Int32
	var wg sync.WaitGroup
	enter := func(l *lockmw.Locker, p lockmw.Policy) {
		_, lease, err := l.Acquire(context.Background(), key, p)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		entered = append(entered, p.Mode.String())
		mu.Unlock()
		if n := inside.Add(1); p.Mode == lockmw.Exclusive && n > 1 {
			t.Errorf("a writer beside %d others", n-1)
		}
		inside.Add(-1)
		if err := lease.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { enter(lockers[0], lockmw.Policy{Wait: time.Minute}) })
	await.Within(t, 10*time.Second, "the writer waits", func() bool { return queued(t, c, key) == 1 })
	for i := range 10 {
		wg.Go(func() { enter(lockers[i%2], read) })
	}
	await.Within(t, 10*time.Second, "later readers wait behind it", func() bool { return queued(t, c, key) == 11 })
	for _, lease := range before {
		mu.Lock()
		if len(entered) > 0 {
			t.Errorf("%q got in beside a reader that came before the writer", entered)
		}
		mu.Unlock()
		mustRelease(t, lease)
	}
	wg.Wait()
	if len(entered) != 11 || entered[0] != "exclusive" || slices.Contains(entered[1:], "exclusive") {
		t.Errorf("they entered in the order %q, want the writer first", entered)
	}
	noKeys(t, c, key, time.Second)
}

func TestWriterIsNotStarvedByAStreamOfReaders(t *testing.T) {
	s := redistest.Shared(t)
	key, c := redistest.Prefix(t), s.Client(t)
	lockers := []*lockmw.Locker{testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))}
	const streams, turns, hold = 8, 10, 20 * time.Millisecond
	stop := make(chan struct{})
	var reads atomic.Int64
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				lease, err := askedAgain(lockers[i%2], key, lockmw.Policy{Mode: lockmw.Shared, Wait: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(hold/2 + rand.N(hold)) // the work; they must not march in step
				reads.Add(1)
				if err := lease.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	await.Within(t, 10*time.Second, "readers stream", func() bool { return reads.Load() > streams })
	var longest time.Duration
	for range turns {
		began := time.Now()
		lease, err := askedAgain(lockers[0], key, lockmw.Policy{Wait: 20 * time.Second})
		if err != nil {
			t.Error(err)
			break
		}
		longest = max(longest, time.Since(began))
		if err := lease.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("a writer among %d readers that stay about %v each waited %v at most; %d reads meanwhile", streams, hold, longest, reads.Load())
	if longest > 8*time.Second { // who starves waits for as long as the readers come
		t.Errorf("a writer waited %v", longest)
	}
	noKeys(t, c, key, time.Second)
}

func TestPermitsBoundTheHoldersOfAllProcesses(t *testing.T) {
	s := redistest.Shared(t)
	key, c := redistest.Prefix(t), s.Client(t)
	lockers := []*lockmw.Locker{testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))}
	const workers, turns, permits = 12, 20, 3
	var inside, most atomic.Int32
	var mu sync.Mutex
	fences := make(map[int64]bool)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range workers {
		wg.Go(func() {
			for range turns {
				_, lease, err := lockers[i%2].Acquire(context.Background(), key, lockmw.Policy{Permits: permits, Wait: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				if n > permits {
					t.Errorf("%d are inside", n)
				}
				time.Sleep(2 * time.Millisecond) // the work
				inside.Add(-1)
				mu.Lock()
				fences[lease.Fence()] = true
				mu.Unlock()
				if err := lease.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d turns with %d permits in %v, at most %d inside", workers*turns, permits, time.Since(began), most.Load())
	if got := most.Load(); got != permits {
		t.Errorf("at most %d were inside at once, want %d", got, permits)
	}
	if len(fences) != workers*turns {
		t.Errorf("%d fences for %d grants", len(fences), workers*turns)
	}
	noKeys(t, c, key, time.Second)
}

// The kinds of one key wait for each other, whoever holds it.
func TestKindsOfOneKeyExcludeEachOther(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	l := testenv.Open(t, c)
	kinds := []lockmw.Policy{{}, {Mode: lockmw.Shared}, {Permits: 2}}
	for i, holds := range kinds {
		lease := mustAcquire(t, l, "k", holds)
		for j, asks := range kinds {
			_, other, err := l.Acquire(context.Background(), "k", asks)
			if got, want := err == nil, i == j && i > 0; got != want {
				t.Errorf("beside %v: %v granted = %v, want %v", name(holds), name(asks), got, want)
			}
			if err == nil {
				mustRelease(t, other)
			}
		}
		mustRelease(t, lease)
		noKeys(t, c, "k", 0)
	}
}

func name(p lockmw.Policy) string { return fmt.Sprintf("%v/%d", p.Mode, p.Permits) }

// Readers whose process hears no messages are let in together too: the first
// that asks finds out for all of them.
func TestReadersWithoutMessagesEnterTogether(t *testing.T) {
	const readers = 30
	s := redistest.Real(t)
	if err := s.Client(t).Do(context.Background(), "ACL", "SETUSER", "deaf", "on", ">word", "allkeys", "allchannels", "+@all", "-subscribe").Err(); err != nil {
		t.Fatal(err)
	}
	c := s.Client(t)
	l := testenv.Open(t, s.Client(t, func(o *redis.Options) { o.Username, o.Password = "deaf", "word" }))
	writer := mustAcquire(t, testenv.Open(t, c), "k", lockmw.Policy{})
	in := make(chan *lockmw.Lease, readers)
	for range readers {
		go func() {
			_, lease, err := l.Acquire(context.Background(), "k", lockmw.Policy{Mode: lockmw.Shared, Wait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			in <- lease
		}()
	}
	await.Within(t, 20*time.Second, "all readers wait", func() bool { return queued(t, c, "k") == readers })
	mustRelease(t, writer)
	released := time.Now()
	var leases []*lockmw.Lease
	for range readers {
		leases = append(leases, <-in)
	}
	if took := time.Since(released); took > 2*time.Second+machine.Between(released, time.Now()) { // one after the other takes twice that
		t.Errorf("%d readers were in after %v", readers, took)
	}
	for _, lease := range leases {
		mustRelease(t, lease)
	}
}
