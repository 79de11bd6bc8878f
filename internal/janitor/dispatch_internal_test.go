package janitor

import (
	"container/heap"
	"testing"
	"time"
)

// When the store stops to serve, more batches are under way than may be from then on. What is due waits for their
// ends: a timer that rings at once, again and again, would keep a processor busy until then.
func TestNoTimerRingsWhileTooManyBatchesAreUnderWay(t *testing.T) {
	j := New(nil, nil)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.underWay, j.unserved = batchesAtOnce, time.Now().Add(-time.Second)
	heap.Push(&j.waiting, &leftover{due: time.Now()})
	j.dispatch()
	if j.timer != nil {
		t.Error("the timer is set, and nothing may be begun when it rings")
	}
	j.cancel()
}
