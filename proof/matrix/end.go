package matrix

import (
	"sync"
	"time"

	"github.com/lockmw/kit/proof/admin"
	"github.com/lockmw/kit/proof/fenced"
	"github.com/lockmw/kit/proof/history"
)

// End has all workers do what is left to do and finish, and returns what the lane saw.
func (l *Lane) End() Outcome {
	for _, p := range l.workers {
		if !hasEnded(p) { // one that has ended by itself tells so as a failure
			l.check(p.Do("finish"))
		}
	}
	undone := l.desk.close(20 * l.TTL) // one whose lock is that of a job that was lost may take some TTLs
	var ends sync.WaitGroup
	errs := make([]error, len(l.workers))
	for i, p := range l.workers {
		ends.Go(func() { errs[i] = p.End() })
	}
	ends.Wait()
	o := Outcome{Injections: l.injections, Jobs: l.desk.seen(), Undone: undone}
	for _, err := range errs {
		if err != nil {
			o.Failures = append(o.Failures, err.Error())
		}
	}
	forgot := false
	for _, in := range l.injections {
		forgot = forgot || in.Forgets
	}
	if !forgot { // one that forgot a part of what belongs together leaves the rest to its TTL
		o.Left = l.left()
	}
	l.unwatch()
	l.watching.Wait()
	for name := range l.eternal {
		o.Eternal = append(o.Eternal, name)
	}
	for _, p := range l.all {
		saw := p.Saw()
		o.Holds = append(o.Holds, saw.Holds...)
		o.Writes = append(o.Writes, saw.Writes...)
		o.Uses = append(o.Uses, saw.Uses...)
		o.Answers.Add(saw.Answers)
		o.Refused += len(saw.Refusals)
		o.Failures = append(o.Failures, saw.Failures...)
	}
	if l.rival != nil {
		o.Holds = append(o.Holds, l.rival.holds...)
	}
	o.Writes = append(o.Writes, untold(l.store.Log(), o.Writes)...)
	return o
}

// untold returns the writes of workers that were killed before they could tell.
func untold(done []fenced.Record, told []history.Write) []history.Write {
	known := make(map[int64]bool, len(told))
	for _, w := range told {
		known[w.Place] = true
	}
	var more []history.Write
	for _, r := range done {
		if !known[r.Place] {
			more = append(more, history.Write{
				Key: r.Key, Worker: "killed", Fence: r.Fence, Called: r.At, Returned: r.At + 1,
				Accepted: r.Accepted, Highest: r.Highest, Place: r.Place,
			})
		}
	}
	return more
}

// left returns the keys that are still there when all that may outlive a worker
// must have ended: the place of a killed waiter that nobody stands behind ends ten
// seconds after it was last asked for. A fence may stay for its own TTL, and what a worker that was killed within Discard had taken for 5 s.
func (l *Lane) left() []string {
	deadline := time.Now().Add(l.TTL + 12*time.Second)
	for {
		var left []string
		for _, client := range l.admins {
			locks, err := admin.Locks(client, "lock:*")
			if err != nil {
				left = append(left, err.Error())
			}
			left = append(left, locks...)
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(20 * time.Millisecond)
	}
}
