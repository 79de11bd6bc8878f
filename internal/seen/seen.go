// Package seen tells whether a lock is in the hands in which an operator has seen it: between the look and the word a lock may pass on, and
// a release by force would take it from somebody who is well.
package seen

import "time"

// A Hold is one who has a lock, as an operator is shown it.
type Hold struct {
	Instance string // empty: a program without lockmw
	Note     string
	Since    time.Time // the zero time: not known
}

// apart is by how much Since may differ of what is the same hold, when it is read again: it is counted back from when the answer came.
const apart = 2 * time.Second

// Same reports whether all who have a lock now were shown. Of those who were shown some may have left.
func Same(now, shown []Hold) bool {
	for _, h := range now {
		found := false
		for _, s := range shown {
			found = found || h.Instance == s.Instance && h.Note == s.Note && h.Since.Sub(s.Since).Abs() <= apart
		}
		if !found {
			return false
		}
	}
	return true
}
