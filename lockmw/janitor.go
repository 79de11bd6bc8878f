package lockmw

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// When a token is cleaned up, counted from when that was asked for. A first
// try may come too early: a question that timed out can still be on its way
// to Redis on a connection nobody reads any more.
var cleanUps = [...]time.Duration{0, 50 * time.Millisecond, 250 * time.Millisecond, time.Second}

const (
	cleanUpsAtOnce = 16
	cleanUpTimeout = 500 * time.Millisecond

	// A place in the queue that is not kept alive ends within this time by
	// itself, a lock within its TTL.
	placeLives = 10 * time.Second
)

// A janitor takes tokens that nobody waits for any more out of the store:
// the place in the queue, and the lock if it was granted meanwhile. It works
// on goroutines of its own, so that a caller who gives up returns at once.
type janitor struct {
	store  store.Store
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	litter  []*litter
	working bool
	ending  bool // stop was called
	given   int  // up, since then
	wake    chan struct{}
	worker  sync.WaitGroup
}

type litter struct {
	ref     store.Ref
	certain bool // no question of the token is under way any more
	left    time.Time
	due     time.Time
	tries   int
}

func newJanitor(s store.Store, log *slog.Logger) *janitor {
	j := &janitor{store: s, log: log, wake: make(chan struct{}, 1)}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	return j
}

// add has ref cleaned up. certain says that no question of its token is under
// way any more, so that one definite answer is enough.
func (j *janitor) add(ref store.Ref, certain bool) {
	at := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ctx.Err() != nil {
		return
	}
	j.litter = append(j.litter, &litter{ref: ref, certain: certain, left: at, due: at})
	if !j.working {
		j.working = true
		j.worker.Go(j.work)
		return
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// stop waits until everything is cleaned up, given up or ctx ends, and for the
// end of the janitor's goroutines.
func (j *janitor) stop(ctx context.Context) error {
	j.mu.Lock()
	j.ending = true
	j.mu.Unlock()
	done := make(chan struct{})
	go func() { j.worker.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	j.mu.Lock()
	j.cancel()
	j.mu.Unlock()
	<-done
	if n := len(j.litter) + j.given; n > 0 {
		return fmt.Errorf("%w: close: %d abandoned tokens could not be cleaned up; they end by their TTL", ErrUnavailable, n)
	}
	return nil
}

// work cleans until there is nothing left, which ends its goroutine.
func (j *janitor) work() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, pause, more := j.take(time.Now())
		if !more || j.ctx.Err() != nil {
			return
		}
		j.clean(due)
		if len(due) > 0 {
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-j.wake:
		case <-j.ctx.Done():
		}
	}
}

// take returns what is due and the pause until more is. With nothing at all
// to do, the worker ends: more is false.
func (j *janitor) take(at time.Time) (due []*litter, pause time.Duration, more bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	pause = time.Hour
	for _, it := range j.litter {
		switch wait := it.due.Sub(at); {
		case wait > 0:
			pause = min(pause, wait)
		default:
			due = append(due, it)
		}
	}
	j.working = len(j.litter) > 0
	return due, pause, j.working
}

// clean tries all of them once, and forgets those that are done.
func (j *janitor) clean(due []*litter) {
	if len(due) == 0 {
		return
	}
	next := make(chan *litter)
	var workers sync.WaitGroup
	for range min(cleanUpsAtOnce, len(due)) {
		workers.Go(func() {
			for it := range next {
				j.try(it)
			}
		})
	}
	for _, it := range due {
		next <- it
	}
	close(next)
	workers.Wait()

	j.mu.Lock()
	defer j.mu.Unlock()
	rest := j.litter[:0]
	for _, it := range j.litter {
		if !it.due.IsZero() {
			rest = append(rest, it)
		}
	}
	clear(j.litter[len(rest):])
	j.litter = rest
}

// try cleans one up, and sets when to try again: zero means never.
func (j *janitor) try(it *litter) {
	ctx, cancel := context.WithTimeout(j.ctx, cleanUpTimeout)
	released, err := j.store.Release(ctx, it.ref, true)
	cancel()
	it.tries++
	expired := time.Since(it.left) > max(it.ref.TTL, placeLives)
	switch {
	case err == nil && (it.certain || released != store.NotHeld):
		it.due = time.Time{}
	case err == nil && it.tries >= len(cleanUps):
		it.due = time.Time{} // nothing came in all that time
	case err != nil && (store.AsError(err).Permanent || expired):
		j.log.Warn("lockmw: clean-up of an abandoned attempt failed; what it left ends by its TTL", "key", it.ref.Key, "error", err)
		it.due = time.Time{}
	case it.tries < len(cleanUps):
		it.due = it.left.Add(cleanUps[it.tries])
	case j.giveUp():
		it.due = time.Time{}
	default:
		it.due = time.Now().Add(cleanUps[len(cleanUps)-1])
	}
}

// giveUp says whether to stop trying, because the Locker is being closed and
// Redis has not answered all this while.
func (j *janitor) giveUp() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ending {
		j.given++
	}
	return j.ending
}
