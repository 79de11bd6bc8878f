// Package janitor removes tokens from a store that may still have a lock or a place in its
// queue and must not: of calls that gave up waiting, of leases whose release was not answered, of
// leases that were lost or not renewed in time. It tries again until that is done.
//
// Tokens wait in the order in which they are due and are removed many at a time,
// so that a burst of thousands costs a few exchanges. While the store does not
// answer, or refuses all that it is asked, small batches go out one after the other
// until it serves again: a right that was taken away may be given back.
package janitor

import (
	"container/heap"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// pauses are those between the tries to remove one token, of those tries that the
// store answers. The first try may come too early: a command that timed out can
// still be on its way to Redis on a connection that nobody reads any more.
var pauses = [...]time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 750 * time.Millisecond}

const (
	batchSize     = 1000
	batchesAtOnce = 8
	batchTimeout  = time.Second

	// smallBatchSize is how many tokens a batch has while the store does not serve.
	// The pause between two such batches grows with the time that it does not.
	smallBatchSize = 16
	shortestPause  = 50 * time.Millisecond
	longestPause   = 250 * time.Millisecond

	// stopPatience is how long a store may be silent until Stop gives up.
	stopPatience = time.Second

	// tellEvery is how often the log hears of tokens that were given up, while the
	// store is silent: a node of a quorum may be away for hours.
	tellEvery = time.Minute

	// mostWaiting bounds the memory, to about 40 MB. TTLs do the rest.
	mostWaiting = 1 << 17

	// placeLives is the time in which a place in the queue that is not kept alive
	// ends by itself. A lock does so within its TTL.
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

	mu       sync.Mutex
	waiting  agenda
	batches  sync.WaitGroup
	underWay int       // batches that were started and have not ended
	unserved time.Time // since when the store answers nothing, or refuses all; zero: it serves
	pause    time.Time // the end of the pause after the last batch, while it does not serve
	timer    *time.Timer
	full     bool // tokens were turned away since waiting was empty
	ending   bool // Stop was called
	left     int  // tokens given up since then
	turned   turnedAway
	lost     loss
	idle     chan struct{} // closed when nothing is left to do; nil: nobody waits for that
}

// turnedAway is the tokens for which there was no room.
type turnedAway struct {
	tokens int
	till   time.Time // when what they left has ended by itself
}

// leftover is one token to be removed.
type leftover struct {
	ref     store.Ref
	certain bool      // no command about the token is under way any more
	from    time.Time // since when it is to be removed
	tries   int       // how many were answered, since the last one that was not
	due     time.Time
}

// New returns a Janitor for s. It has no goroutine until there is work.
func New(s store.Store, log *slog.Logger) *Janitor {
	j := &Janitor{store: s, log: log}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	return j
}

// Add has ref removed. certain says that no command about its token is under way
// any more, so that one definite answer is enough. After Stop it does nothing.
func (j *Janitor) Add(ref store.Ref, certain bool) { j.AddAt(time.Time{}, ref, certain) }

// AddAt has ref removed as Add does, but not before a moment. Until then the key is to stay taken. Stop does not wait for
// that moment, see there.
func (j *Janitor) AddAt(notBefore time.Time, ref store.Ref, certain bool) {
	at := time.Now()
	if notBefore.After(at) {
		at = notBefore
	}
	if !j.add(&leftover{ref: ref, certain: certain, from: at, due: at}) {
		j.log.Warn("lockmw: too many abandoned attempts and unanswered releases to clean up; what some left ends by its TTL",
			"most", mostWaiting, "key", ref.Key)
	}
}

// add puts a token on the agenda, if that has room. It reports false if the token
// is the first for which there was none, so that this is logged once.
func (j *Janitor) add(it *leftover) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.ctx.Err() != nil:
		return true
	case len(j.waiting) >= mostWaiting:
		if time.Now().After(j.turned.till) {
			j.turned.tokens = 0
		}
		j.turned.tokens++
		if till := it.ends(); till.After(j.turned.till) {
			j.turned.till = till
		}
		first := !j.full
		j.full = true
		return !first
	}
	if j.ending {
		it.due = time.Now() // see Stop
	}
	heap.Push(&j.waiting, it)
	j.dispatch()
	return true
}

// dispatch starts batches for what is due, as many as may run, and sets the
// timer for the rest. The caller holds mu.
func (j *Janitor) dispatch() {
	if j.ctx.Err() != nil {
		return
	}
	if len(j.waiting) == 0 {
		j.full = false
		if j.idle != nil && j.underWay == 0 {
			close(j.idle)
			j.idle = nil
		}
		return
	}
	atOnce, size := batchesAtOnce, batchSize
	if !j.unserved.IsZero() {
		atOnce, size = 1, smallBatchSize
	}
	for at := time.Now(); j.underWay < atOnce && !at.Before(j.nextDue()); {
		batch := j.waiting.take(at, size)
		j.underWay++
		j.batches.Go(func() { j.remove(batch) })
		if len(j.waiting) == 0 {
			return
		}
	}
	if j.underWay >= atOnce {
		return // a batch that ends calls dispatch
	}
	next := time.Until(j.nextDue())
	if j.timer == nil {
		j.timer = time.AfterFunc(next, j.tick)
		return
	}
	j.timer.Reset(next)
}

// nextDue is when the next batch may start. The caller holds mu, and something
// is waiting.
func (j *Janitor) nextDue() time.Time {
	due := j.waiting[0].due
	if !j.unserved.IsZero() && j.pause.After(due) {
		return j.pause
	}
	return due
}

func (j *Janitor) tick() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dispatch()
}

// remove carries out one batch, and puts back what has to be done again.
func (j *Janitor) remove(batch []*leftover) {
	asks := make([]store.Removal, len(batch))
	sent := time.Now()
	for i, it := range batch {
		asks[i].Ref, asks[i].Stay = it.ref, max(it.from.Sub(sent), 0)
	}
	ctx, cancel := context.WithTimeout(j.ctx, batchTimeout)
	j.store.Remove(ctx, asks)
	cancel()

	var refused, givenUp []store.Removal
	at := time.Now()
	j.mu.Lock()
	j.underWay--
	j.note(asks, at)
	hopeless := j.ending && !j.unserved.IsZero() && at.Sub(j.unserved) > stopPatience
	for i, it := range batch {
		switch err := asks[i].Err; {
		case err == nil:
			it.tries++
			if it.certain || it.tries > len(pauses) {
				continue // nothing can come any more, or nothing came in all that time
			}
			it.due = at.Add(pauses[it.tries-1])
		case store.AsError(err).Permanent:
			if over := it.over(at); j.ending || over {
				refused = append(refused, asks[i])
				if !over {
					j.left++
				}
				continue
			}
			it.tries, it.due = 0, at.Add(longestPause)
		case hopeless, it.over(at):
			givenUp = append(givenUp, asks[i])
			continue
		default: // what had not reached the store until now may come as late as the next try
			it.tries, it.due = 0, at.Add(shortestPause)
		}
		heap.Push(&j.waiting, it)
	}
	left := len(givenUp)
	if left > 0 { // others that wait may be as old
		left += j.waiting.remove(func(it *leftover) bool { return hopeless || it.over(at) })
		j.left += left
		j.lost.attempts += left
		j.lost.one = givenUp[0]
	}
	lost := j.lost.due(at, j.unserved.IsZero())
	j.dispatch()
	j.mu.Unlock()

	if len(refused) > 0 {
		j.log.Debug("lockmw: Redis refused to clean up abandoned attempts or unanswered releases; what they left ends by its TTL",
			"attempts", len(refused), "key", refused[0].Key, "error", refused[0].Err)
	}
	if lost.attempts > 0 {
		j.log.Warn("lockmw: abandoned attempts or unanswered releases were not cleaned up; what they left ends by its TTL",
			"attempts", lost.attempts, "key", lost.one.Key, "error", lost.one.Err)
	}
}

// A loss is the tokens that were given up and of which the log has not heard.
type loss struct {
	attempts int
	one      store.Removal // of them
	told     time.Time     // when the log heard of the last ones
}

// due returns what the log is to hear now. answers says that the store does again.
func (l *loss) due(at time.Time, answers bool) loss {
	if l.attempts == 0 || !answers && at.Sub(l.told) < tellEvery {
		return loss{}
	}
	all := *l
	*l = loss{told: at}
	return all
}

// ends is when what the token has left has ended by itself.
func (it *leftover) ends() time.Time { return it.from.Add(max(it.ref.TTL, placeLives)) }

func (it *leftover) over(at time.Time) bool { return at.After(it.ends()) }

// note notes whether the store carried out any of a batch. The caller holds mu.
func (j *Janitor) note(batch []store.Removal, at time.Time) {
	if slices.ContainsFunc(batch, func(r store.Removal) bool { return r.Err == nil }) {
		j.unserved = time.Time{}
		return
	}
	if j.unserved.IsZero() {
		j.unserved = at
	}
	j.pause = at.Add(min(max(at.Sub(j.unserved), shortestPause), longestPause))
}

// Stop waits until everything is removed or given up, or ctx ends. Then it waits for
// the end of the janitor's goroutines, which takes a second more at most. It returns
// how many tokens could not be removed, or were turned away and may have left something:
// that ends by its TTL.
//
// What is to be removed later (AddAt) is given back now, and its key stays taken for what is left of that time. Nobody
// knows whether the store has heard of that time: if it has not, the key would stay taken for a TTL.
func (j *Janitor) Stop(ctx context.Context) (left int) {
	idle := make(chan struct{})
	j.mu.Lock()
	at := time.Now()
	for _, it := range j.waiting {
		if it.from.After(at) {
			it.due = at
		}
	}
	heap.Init(&j.waiting)
	j.ending, j.left, j.idle = true, 0, idle
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
	j.batches.Wait()
	if time.Now().Before(j.turned.till) {
		j.left += j.turned.tokens
	}
	return len(j.waiting) + j.left
}
