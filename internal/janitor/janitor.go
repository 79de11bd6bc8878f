// Package janitor cleans up behind those who gave up: it takes tokens that
// nobody waits for any more out of a store, as often as that takes.
package janitor

import (
	"context"
	"log/slog"
	"slices"
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

	// mostWaiting bounds what a server that is away leaves to be done. TTLs
	// do the rest.
	mostWaiting = 1000

	// A place in the queue that is not kept alive ends within this time by
	// itself, a lock within its TTL.
	placeLives = 10 * time.Second
)

// A Janitor takes tokens that nobody waits for any more out of one store: the
// place in the queue, and the lock if it was granted meanwhile. It works on
// goroutines of its own, so that a caller who gives up returns at once. It is
// safe for concurrent use; Stop ends it.
type Janitor struct {
	store  store.Store
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	waiting []*litter // not due yet, or there is no worker for them yet
	working int       // tries under way
	timer   *time.Timer
	ending  bool          // Stop was called
	dropped int           // given up; Stop counts anew
	idle    chan struct{} // closed when nothing is left to do; nil: nobody waits for that
	tries   sync.WaitGroup
}

type litter struct {
	ref     store.Ref
	certain bool // no question of the token is under way any more
	left    time.Time
	due     time.Time
	tries   int
}

// New returns a Janitor for s. It has no goroutine until there is work.
func New(s store.Store, log *slog.Logger) *Janitor {
	j := &Janitor{store: s, log: log}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	return j
}

// Add has ref cleaned up. certain says that no question of its token is under
// way any more, so that one definite answer is enough. After Stop it does
// nothing.
func (j *Janitor) Add(ref store.Ref, certain bool) { j.AddAt(time.Time{}, ref, certain) }

// AddAt is Add, but nothing is done before a moment.
func (j *Janitor) AddAt(notBefore time.Time, ref store.Ref, certain bool) {
	at := time.Now()
	if notBefore.After(at) {
		at = notBefore
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ctx.Err() != nil {
		return
	}
	if len(j.waiting) >= mostWaiting {
		if j.dropped++; j.dropped == 1 {
			j.log.Warn("lockmw: too many abandoned attempts to clean up; what some left ends by its TTL", "key", ref.Key)
		}
		return
	}
	j.waiting = append(j.waiting, &litter{ref: ref, certain: certain, left: at, due: at})
	j.dispatch()
}

// dispatch starts tries for what is due, as many as may run, and sets the
// timer for the rest. The caller holds mu.
func (j *Janitor) dispatch() {
	if j.ctx.Err() != nil {
		return
	}
	at, next := time.Now(), time.Duration(-1)
	rest := j.waiting[:0]
	for _, it := range j.waiting {
		wait := it.due.Sub(at)
		if wait <= 0 && j.working < cleanUpsAtOnce {
			j.working++
			j.tries.Go(func() { j.try(it) })
			continue
		}
		rest = append(rest, it)
		if wait > 0 && (next < 0 || wait < next) {
			next = wait
		}
	}
	clear(j.waiting[len(rest):])
	j.waiting = rest
	switch {
	case next < 0:
	case j.timer == nil:
		j.timer = time.AfterFunc(next, j.tick)
	default:
		j.timer.Reset(next)
	}
	if j.idle != nil && j.working == 0 && len(j.waiting) == 0 {
		close(j.idle)
		j.idle = nil
	}
}

func (j *Janitor) tick() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dispatch()
}

// try cleans one up, and puts it back if that has to be done again.
func (j *Janitor) try(it *litter) {
	ctx, cancel := context.WithTimeout(j.ctx, cleanUpTimeout)
	_, err := j.store.Release(ctx, it.ref, true)
	cancel()
	it.tries++

	j.mu.Lock()
	defer j.mu.Unlock()
	j.working--
	if j.again(it, err) {
		j.waiting = append(j.waiting, it)
	}
	j.dispatch()
}

// again decides after a try whether and when there is another.
func (j *Janitor) again(it *litter, err error) bool {
	switch {
	case err == nil && (it.certain || it.tries >= len(cleanUps)):
		return false // nothing can come any more, or nothing came in all that time
	case err != nil && store.AsError(err).Permanent:
		j.log.Debug("lockmw: Redis refused to clean up an abandoned attempt; what it left ends by its TTL", "key", it.ref.Key, "error", err)
		return false
	case it.tries < len(cleanUps):
		it.due = it.left.Add(cleanUps[it.tries])
		return true
	case j.ending, time.Since(it.left) > max(it.ref.TTL, placeLives):
		j.dropped++
		j.log.Warn("lockmw: an abandoned attempt was not cleaned up; what it left ends by its TTL", "key", it.ref.Key, "error", err)
		return false
	}
	// Each pause is twice the one before: a server that stays away costs little.
	it.due = time.Now().Add(cleanUps[len(cleanUps)-1] << min(it.tries-len(cleanUps), 5))
	return true
}

// Stop waits until everything is cleaned up, given up or ctx ends, and for the
// end of the janitor's goroutines. It returns how many tokens could not be
// cleaned up: what they left ends by its TTL.
func (j *Janitor) Stop(ctx context.Context) (left int) {
	idle := make(chan struct{})
	j.mu.Lock()
	j.ending, j.dropped, j.idle = true, 0, idle
	at := time.Now()
	j.waiting = slices.DeleteFunc(j.waiting, func(it *litter) bool { return it.left.After(at) }) // a MinHold ends by the TTL
	j.dispatch()
	j.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	j.mu.Lock()
	j.cancel()
	if j.timer != nil {
		j.timer.Stop()
	}
	j.mu.Unlock()
	j.tries.Wait()
	return len(j.waiting) + j.dropped
}
