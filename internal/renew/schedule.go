package renew

import (
	"container/heap"
	"math"
	"sync/atomic"
	"time"
)

// never is when a timer fires that is not set.
const never = math.MaxInt64

// A schedule is when renewals come that may go together. The Watchdog's mutex guards it;
// without that, wake may only be read.
type schedule struct {
	agenda  agenda
	timer   *time.Timer  // nil until it is set for the first time
	wake    atomic.Int64 // when timer fires, as a Renewal's due; or never
	flights int          // batches in flight
}

// wakesBy reports whether the timer is set to due or earlier.
func (s *schedule) wakesBy(due time.Duration) bool { return s.wake.Load() <= int64(due) }

// push puts a renewal on the agenda. The caller arms the schedule then.
func (s *schedule) push(r *Renewal) {
	r.schedule = s
	heap.Push(&s.agenda, r)
}

// pop takes the first renewal off the agenda.
func (s *schedule) pop() {
	s.agenda[0].schedule = nil
	heap.Pop(&s.agenda)
}

// arm sets a schedule's timer to the first renewal on its agenda, if that comes before what
// it is set to. While as many batches are in flight as may be it does not: the end of one
// arms it. The caller holds mu.
func (w *Watchdog) arm(s *schedule) {
	if len(s.agenda) == 0 || w.stopped || s.flights >= flightsMax {
		return
	}
	first := s.agenda[0].due
	if s.wakesBy(first) {
		return
	}
	s.wake.Store(int64(first))
	if s.timer == nil {
		s.timer = time.AfterFunc(first-w.now(), func() { w.fly(s) })
		return
	}
	s.timer.Reset(first - w.now())
}

// stop stops the timer.
func (s *schedule) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// An agenda is a heap of renewals, the first due on top. Each knows its index.
type agenda []*Renewal

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].due < a[j].due }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}
func (a *agenda) Push(x any) {
	r := x.(*Renewal)
	r.index = len(*a)
	*a = append(*a, r)
}
func (a *agenda) Pop() any {
	old := *a
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	return r
}
