package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Overlap is a moment at which one holder too many was inside.
type Overlap struct {
	Hold Hold          // the one that came in
	With Hold          // one that was inside then
	For  time.Duration // how long both were
}

// String names both holders.
func (o Overlap) String() string {
	return fmt.Sprintf("%s: %s/%d came in at %v while %s/%d was inside until %v (%s), for %v",
		o.Hold.Key, o.Hold.Worker, o.Hold.ID, o.Hold.Began, o.With.Worker, o.With.ID, o.With.Ended, o.With.How, o.For)
}

// Overlaps returns every hold that began while its key had no room for it. The
// scan is exact: it compares the times themselves. Intervals of which one ends at
// the very moment at which the other begins do not overlap.
func Overlaps(holds []Hold) []Overlap {
	var found []Overlap
	for _, ofKey := range byKey(holds, func(h Hold) string { return h.Key }) {
		slices.SortFunc(ofKey, func(a, b Hold) int { return cmp.Compare(a.Began, b.Began) })
		var inside []Hold
		for _, h := range ofKey {
			if h.Ended <= h.Began {
				continue // it was never trusted
			}
			inside = slices.DeleteFunc(inside, func(in Hold) bool { return in.Ended <= h.Began })
			if with, full := noRoom(inside, h); full {
				found = append(found, Overlap{Hold: h, With: with, For: min(h.Ended, with.Ended) - h.Began})
			}
			inside = append(inside, h)
		}
	}
	slices.SortFunc(found, func(a, b Overlap) int { return cmp.Compare(a.Hold.Began, b.Hold.Began) })
	return found
}

// noRoom reports whether h cannot be inside together with these, and because of
// whom.
func noRoom(inside []Hold, h Hold) (with Hold, full bool) {
	switch h.Kind {
	case Permits:
		if len(inside) >= h.Permits {
			return inside[0], true
		}
	case Readers:
		for _, in := range inside {
			if !in.Shared || !h.Shared {
				return in, true
			}
		}
	case Mutex:
		if len(inside) > 0 {
			return inside[0], true
		}
	}
	return Hold{}, false
}
