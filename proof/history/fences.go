package history

import (
	"cmp"
	"fmt"
	"slices"
)

// holdID names a hold over all processes.
type holdID struct {
	worker string
	id     int
}

// FenceFaults returns the holds of a mutex whose fence is not higher than that of
// a hold that had begun before they were asked for. Zero means that none was
// given.
func FenceFaults(holds []Hold) []string {
	var faults []string
	for key, ofKey := range byKey(holds, func(h Hold) string { return h.Key }) {
		began := slices.Clone(ofKey) // in the order in which they began
		slices.SortFunc(began, func(a, b Hold) int { return cmp.Compare(a.Began, b.Began) })
		slices.SortFunc(ofKey, func(a, b Hold) int { return cmp.Compare(a.Asked, b.Asked) })
		var highest Hold
		i := 0
		for _, h := range ofKey {
			for ; i < len(began) && began[i].Began < h.Asked; i++ {
				if began[i].Fence > highest.Fence {
					highest = began[i]
				}
			}
			if h.Kind == Mutex && h.Fence != 0 && h.Fence <= highest.Fence {
				faults = append(faults, fmt.Sprintf("%s: %s/%d was asked for at %v and has fence %d; %s/%d began at %v with %d",
					key, h.Worker, h.ID, h.Asked, h.Fence, highest.Worker, highest.ID, highest.Began, highest.Fence))
			}
		}
	}
	return faults
}

// PerTenure returns the holds as FenceFaults and StaleWrites are to see them where Redis forgets locks.
// There a process that passes a lock on by itself goes on for up to a second, with fences
// below those of whoever has the lock by then; a resource that checks fences refuses its
// writes. So a hold that follows another one of its worker with the next fence counts as
// asked for when that one was.
func PerTenure(holds []Hold) []Hold {
	holds = slices.Clone(holds)
	slices.SortFunc(holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Fence, b.Fence))
	})
	for i := 1; i < len(holds); i++ {
		last, h := holds[i-1], &holds[i]
		if h.Kind == Mutex && h.Key == last.Key && h.Worker == last.Worker && last.Fence != 0 && h.Fence == last.Fence+1 {
			h.Asked = min(h.Asked, last.Asked)
		}
	}
	return holds
}

// StaleWrites returns the writes that a fenced store accepted although it had
// accepted one of a later holder before.
func StaleWrites(holds []Hold, writes []Write) []string {
	of := make(map[holdID]Hold, len(holds))
	for _, h := range holds {
		of[holdID{h.Worker, h.ID}] = h
	}
	var stale []string
	for key, ofKey := range byKey(writes, func(w Write) string { return w.Key }) {
		slices.SortFunc(ofKey, func(a, b Write) int { return cmp.Compare(a.Place, b.Place) })
		var latest Hold // of those with an accepted write, the one that was asked for last
		for _, w := range ofKey {
			h, known := of[holdID{w.Worker, w.ID}]
			if !known || !w.Accepted {
				continue
			}
			if h.Began < latest.Asked {
				stale = append(stale, fmt.Sprintf("%s: a write of %s/%d with fence %d was accepted after one of %s/%d with fence %d",
					key, h.Worker, h.ID, h.Fence, latest.Worker, latest.ID, latest.Fence))
			}
			if h.Asked > latest.Asked {
				latest = h
			}
		}
	}
	return stale
}
