package checks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// turns is a lock's history from inside.
type turns struct {
	mu     sync.Mutex
	inside int
	left   time.Time // the last one; zero: there was none
	gaps   samples   // from a release until the next one is inside
}

func (h *turns) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.left.IsZero() {
		h.gaps.add(time.Since(h.left))
	}
	if h.inside++; h.inside > 1 {
		return errors.New("two are inside")
	}
	return nil
}

func (h *turns) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inside--
	h.left = time.Now()
}

// Waiters who are told of their turn by messages find it too when the messages
// are lost: every connection that listens is closed ten times a second.
func TestLostMessagesCostAMoment(t *testing.T) {
	besideOthers(t)
	random := seed(record.Seed(t))
	times := record.Pick(150, 2000)
	const lockers, waiters, every = 4, 4, 100 * time.Millisecond
	const limit = 1100 * time.Millisecond
	const stuck = 20 * time.Second                                                    // no turn of all waiters lasts as long
	policy := lockmw.Policy{TTL: time.Duration(record.Pick(5, 1)) * ttl, Wait: stuck} // no stall ends a turn of the short slice
	s := redistest.Real(t)
	raw := s.Client(t)
	const key = "k"

	var killed atomic.Int64
	var shared [lockers]*lockmw.Locker
	for i := range shared {
		shared[i] = testenv.Open(t, s.Client(t))
	}
	stop := meanwhile(every, func() {
		killed.Add(raw.ClientKillByFilter(context.Background(), "TYPE", "pubsub").Val())
	})
	defer stop()
	var history turns
	forEach(t, lockers*waiters, times+1, func(i int) error {
		lease, err := acquire(shared[i%lockers], key, policy)
		if err != nil {
			return fmt.Errorf("a stuck waiter: %w", err)
		}
		err = history.enter()
		time.Sleep(random.upTo(i, 10*time.Millisecond)) // the work
		history.leave()
		return errors.Join(err, release(lease))
	})
	rounds := stop()
	longest := history.gaps.quantile(1)
	met := !t.Failed() && killed.Load() > 0
	if !testing.Short() {
		met = met && longest <= limit
	}
	record.Add(t, record.Row{
		Check: 12, Name: "CLIENT KILL TYPE pubsub every 100 ms",
		Goal:   fmt.Sprintf("%d hand-overs: longest gap at most 1.1 s, stuck waiters 0", times),
		Figure: fmt.Sprintf("%d hand-overs; gap %s; stuck %d", history.gaps.count(), history.gaps.spread(), times-history.gaps.count()),
		Met:    met && history.gaps.count() == times,
		Note:   fmt.Sprintf("%d waiters of %d Lockers on one key; %d subscriptions closed in %d rounds", lockers*waiters, lockers, killed.Load(), rounds),
	})
}

// A server may forget the scripts at any moment, between any two questions.
func TestForgottenScriptsAreSentAgain(t *testing.T) {
	besideOthers(t)
	random := seed(record.Seed(t))
	times := record.Pick(1500, 10_000)
	const every, workers, held = 20 * time.Millisecond, 8, 20
	s := redistest.Real(t)
	raw := s.Client(t)
	var renewed, refused, late atomic.Int64
	l := testenv.Open(t, s.Client(t), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		switch e.Kind {
		case lockmw.EventRenewed:
			renewed.Add(1)
		case lockmw.EventRenewalFailed:
			if strings.Contains(e.Err.Error(), "NOSCRIPT") {
				refused.Add(1)
			} else { // a busy machine: it is tried again
				late.Add(1)
			}
		case lockmw.EventLost:
			refused.Add(1)
		default:
		}
	}))
	ctx := context.Background()
	lasts := time.Duration(record.Pick(3, 1)) * ttl // no stall ends a lease of the short slice
	var leases [held]*lockmw.Lease
	forEach(t, 1, held, func(i int) (err error) {
		leases[i], err = acquire(l, fmt.Sprint("held ", i), lockmw.Policy{TTL: lasts})
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	stop := meanwhile(every, func() { raw.ScriptFlush(ctx) })
	defer stop()
	var done, failed atomic.Int64
	forEach(t, workers, times, func(i int) error {
		// Two and two have a key in common, so that there are hand-overs.
		lease, err := acquire(l, fmt.Sprint("k", i%(workers/2)), lockmw.Policy{TTL: lasts, Wait: patience})
		if err == nil {
			time.Sleep(random.upTo(i, 4*time.Millisecond)) // the work
			err = release(lease)
		}
		if err != nil {
			failed.Add(1)
			return err
		}
		done.Add(1)
		return nil
	})
	comes(lasts, func() bool { return renewed.Load() >= held }) // renewals meet the flushes, too
	flushes := stop()
	forEach(t, held, held, func(i int) error { return release(leases[i]) })
	record.Add(t, record.Row{
		Check: 13, Name: "SCRIPT FLUSH every 20 ms",
		Goal:   fmt.Sprintf("%d cycles: errors seen by the user 0", times),
		Figure: fmt.Sprintf("%d cycles, errors %d; %d renewals of %d leases, failed %d", done.Load(), failed.Load(), renewed.Load(), held, refused.Load()),
		Met:    !t.Failed() && done.Load() == int64(times) && refused.Load() == 0 && renewed.Load() > 0 && flushes > 0,
		Note:   fmt.Sprintf("%d flushes while %d goroutines took turns on %d keys; %d renewals were late for another reason", flushes, workers, workers/2, late.Load()),
	})
}
