package history

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict counts what porcupine said of histories, one per key.
type Verdict struct {
	Keys       int            `json:"keys"`
	Operations map[string]int `json:"operations"` // by model
	Illegal    []string       `json:"illegal"`    // keys
	Unknown    []string       `json:"unknown"`    // keys for which the time was too short
}

// Total returns the number of operations of all models.
func (v Verdict) Total() int {
	total := 0
	for _, n := range v.Operations {
		total += n
	}
	return total
}

// Check asks porcupine about each key: whether there is an order of its
// operations, within the times at which they were called and returned, in which
// a lock of its kind would have done all of them. An acquire that failed says
// nothing and is left out. An expiring lease is no plain mutex: one that was lost
// gets a release between the end of its interval and the moment by which Redis
// must have forgotten it. limit is for each key.
func Check(holds []Hold, writes []Write, limit time.Duration) Verdict {
	v := Verdict{Operations: make(map[string]int)}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	ask := func(name, key string, model porcupine.Model, ops []porcupine.Operation) {
		v.Operations[name] += len(ops)
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			result := porcupine.CheckOperationsTimeout(model, ops, limit)
			mu.Lock()
			defer mu.Unlock()
			switch result {
			case porcupine.Illegal:
				v.Illegal = append(v.Illegal, name+" "+key)
			case porcupine.Unknown:
				v.Unknown = append(v.Unknown, name+" "+key)
			case porcupine.Ok:
			}
		})
	}
	locks := byKey(holds, func(h Hold) string { return h.Key })
	for key, ofKey := range locks {
		ask(string(ofKey[0].Kind), key, lockModel, lockOperations(ofKey))
	}
	for key, ofKey := range byKey(writes, func(w Write) string { return w.Key }) {
		ask("fenced register", key, registerModel, registerOperations(ofKey))
	}
	all.Wait()
	v.Keys = len(locks)
	slices.Sort(v.Illegal)
	slices.Sort(v.Unknown)
	return v
}

// lockStep is what is done to a lock.
type lockStep struct {
	hold    Hold
	release bool
}

// lockModel is a lock of any of the kinds. Its state is a map of the holders,
// which is never changed in place.
var lockModel = porcupine.Model{
	Init: func() any { return map[holdID]Hold{} },
	Step: func(state, input, _ any) (bool, any) {
		inside, _ := state.(map[holdID]Hold)
		step, _ := input.(lockStep)
		id := holdID{step.hold.Worker, step.hold.ID}
		if step.release {
			if _, ok := inside[id]; !ok {
				return false, state
			}
			next := maps.Clone(inside)
			delete(next, id)
			return true, next
		}
		if _, full := noRoom(slices.Collect(maps.Values(inside)), step.hold); full {
			return false, state
		}
		next := maps.Clone(inside)
		next[id] = step.hold
		return true, next
	},
	Equal: func(a, b any) bool {
		x, _ := a.(map[holdID]Hold)
		y, _ := b.(map[holdID]Hold)
		return maps.EqualFunc(x, y, func(Hold, Hold) bool { return true })
	},
}

func lockOperations(holds []Hold) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, 2*len(holds))
	for i, h := range holds {
		if h.Ended <= h.Began {
			continue // it was never trusted
		}
		ops = append(ops,
			porcupine.Operation{ClientId: i, Input: lockStep{hold: h}, Call: int64(h.Asked), Return: int64(h.Began)},
			porcupine.Operation{ClientId: i, Input: lockStep{hold: h, release: true}, Call: int64(h.Ended), Return: int64(max(h.Freed, h.Ended))})
	}
	return ops
}

// registerModel is a register that keeps the highest fence and refuses lower
// ones; a write is told what was the highest before.
var registerModel = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		highest, _ := state.(int64)
		w, _ := input.(Write)
		if w.Highest != highest || w.Accepted != (w.Fence >= highest) {
			return false, state
		}
		return true, max(highest, w.Fence)
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
}

func registerOperations(writes []Write) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, len(writes))
	for i, w := range writes {
		ops = append(ops, porcupine.Operation{ClientId: i, Input: w, Call: int64(w.Called), Return: int64(w.Returned)})
	}
	return ops
}
