package janitor

import (
	"container/heap"
	"slices"
	"time"
)

// An agenda is a heap of tokens that are to be removed, the one that is due first
// at the top.
type agenda []*leftover

var _ heap.Interface = (*agenda)(nil)

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].due.Before(a[j].due) }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *agenda) Push(x any) { *a = append(*a, x.(*leftover)) }

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	old := *a
	last := len(old) - 1
	it := old[last]
	old[last] = nil
	*a = old[:last]
	return it
}

// take removes up to most tokens that are due at a moment from the agenda, and
// returns them.
func (a *agenda) take(at time.Time, most int) (due []*leftover) {
	for len(due) < most && len(*a) > 0 && !(*a)[0].due.After(at) {
		due = append(due, heap.Pop(a).(*leftover))
	}
	return due
}

// remove removes the tokens that match from the agenda, and returns how many did.
func (a *agenda) remove(matches func(*leftover) bool) (removed int) {
	n := len(*a)
	*a = slices.DeleteFunc(*a, matches)
	heap.Init(a)
	return n - len(*a)
}
