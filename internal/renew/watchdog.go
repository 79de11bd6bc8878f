package renew

import (
	"container/heap"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/shards"
	"github.com/lockmw/kit/internal/store"
)

// A Store is where items are renewed. Each store.Store is one.
type Store interface {
	// Renew extends all of them in one exchange, and notes in each what came of it. It
	// returns when ctx ends. It is called from several goroutines.
	Renew(ctx context.Context, batch []store.Renewal)
}

// An Item is what is renewed. After Watchdog.Remove has returned none of its methods is
// called any more.
type Item interface {
	// Terms is called when a renewal is due. It returns how long the renewal may take, or
	// 0 if the item is not to be renewed any more, and whether its server cannot be
	// reached just now. It must not block, nor call the Watchdog, whose mutex is held.
	Terms() (timeout time.Duration, cutOff bool)

	// Ask returns what the store is asked to extend.
	Ask() store.Ref

	// Renewed takes in what came of a renewal: answer has what Ask returned, and was asked
	// for after sent. It returns the pause until the next renewal, or 0 if there is to be
	// none.
	Renewed(sent time.Time, answer store.Renewal) (pause time.Duration)
}

// A Renewal is what a Watchdog knows of one item, which has it as a field: see
// Watchdog.Renewal. It is guarded by the mutex of its intake while it is there, and by the
// Watchdog's from then on.
type Renewal struct {
	item     Item
	intake   *intake
	fresh    bool          // it is in its intake; guarded by the intake's mutex at all times
	removed  bool          // it is never to be scheduled again; guarded by the Watchdog's at all times
	index    int           // in the intake or the agenda
	due      time.Duration // since the Watchdog began
	early    time.Duration // it may be renewed this much before, with others
	schedule *schedule     // whose agenda it is in, or nil
	batch    *batch        // in which it is in flight, or nil
}

// A Watchdog renews the items of one store. The package comment says how. Its methods are
// safe for concurrent use.
type Watchdog struct {
	store   Store
	began   time.Time
	intakes shards.Of[intake]

	mu      sync.Mutex
	sound   schedule // of all that are not in the other one
	cut     schedule // of items that were due while their server could not be reached
	stopped bool
	running sync.WaitGroup // goroutines that send batches
}

// New returns a Watchdog for s. It has no goroutine until something is due. Stop ends it.
func New(s Store) *Watchdog {
	w := &Watchdog{store: s, began: time.Now()}
	w.sound.wake.Store(never)
	w.cut.wake.Store(never)
	return w
}

// Renewal returns the Renewal for item, to be kept in one place: all methods take its
// address. Items with different keys hardly meet before they are due.
func (w *Watchdog) Renewal(item Item, key string) Renewal {
	return Renewal{item: item, intake: w.intakes.Part(key)}
}

// now is the time since the Watchdog began.
func (w *Watchdog) now() time.Duration { return time.Since(w.began) }

// Add has r renewed for the first time when a pause after from is over, or a little
// earlier with others. It must be called once at most. It may be called after Remove or
// Stop: then r is not renewed.
func (w *Watchdog) Add(r *Renewal, from time.Time, pause time.Duration) {
	r.plan(from.Sub(w.began), pause)
	due := r.due // from put on it is the Watchdog's
	r.intake.put(r)
	if w.sound.wakesBy(due) {
		return // as for most: the timer is set to the first of all that were there when it fired last
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.collect()
	w.arm(&w.sound)
}

// plan has the renewal due a pause after from.
func (r *Renewal) plan(from, pause time.Duration) {
	r.due, r.early = from+pause, min(rideAlong, pause/rideShare)
}

// RenewNow has r renewed at once. If it is in flight, or was not added yet, nothing
// changes.
func (w *Watchdog) RenewNow(r *Renewal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.collect()
	if r.schedule != nil {
		r.due = w.now()
		heap.Fix(&r.schedule.agenda, r.index)
		w.arm(r.schedule)
	}
}

// RenewAll renews at once all that are not in flight and whose servers were not found to
// be cut off, and returns when nothing of that is in flight any more. It is for tests and
// benchmarks.
func (w *Watchdog) RenewAll() {
	w.mu.Lock()
	w.collect()
	at := w.now()
	for _, r := range w.sound.agenda {
		r.due = at // all the same: it is a heap still
	}
	w.mu.Unlock()
	w.fly(&w.sound)
	for flights := 1; flights > 0; runtime.Gosched() { // others may have helped
		w.mu.Lock()
		flights = w.sound.flights
		w.mu.Unlock()
	}
}

// Remove ends the renewals of r. When it returns, none is in flight. Later calls do the
// same.
func (w *Watchdog) Remove(r *Renewal) {
	if landed := w.RemoveNoWait(r); landed != nil {
		<-landed
	}
}

// RemoveNoWait is Remove, but does not wait for a renewal that is in flight. It returns what is
// closed when none is any more; nil: none is now.
func (w *Watchdog) RemoveNoWait(r *Renewal) (landed <-chan struct{}) {
	if r.intake.remove(r) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.removed = true
	if r.schedule != nil {
		heap.Remove(&r.schedule.agenda, r.index)
		r.schedule = nil
	}
	if r.batch == nil {
		return nil
	}
	return r.batch.landed
}

// Stop ends all renewals, and returns when none is in flight.
func (w *Watchdog) Stop() {
	w.mu.Lock()
	w.stopped = true
	w.sound.stop()
	w.cut.stop()
	w.mu.Unlock()
	w.running.Wait()
}
