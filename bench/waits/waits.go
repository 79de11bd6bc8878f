// Package waits counts how long things took, with an error of at most 1.6 %.
package waits

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A power of two is cut into this many buckets.
const (
	cutBits = 6
	cuts    = 1 << cutBits
	buckets = (64 - cutBits + 1) * cuts
)

// Counts are durations by bucket. Many goroutines may add at the same time.
type Counts struct {
	by  [buckets]atomic.Uint64
	max atomic.Int64
}

// Add counts d; less than nothing counts as nothing.
func (c *Counts) Add(d time.Duration) {
	d = max(d, 0)
	c.by[bucket(uint64(d))].Add(1)
	for {
		most := c.max.Load()
		if int64(d) <= most || c.max.CompareAndSwap(most, int64(d)) {
			return
		}
	}
}

// Summary returns what was counted so far. Call it when nobody adds any more.
func (c *Counts) Summary() Summary {
	s := Summary{Max: time.Duration(c.max.Load()), By: make(map[int]uint64)}
	for i := range c.by {
		if n := c.by[i].Load(); n > 0 {
			s.By[i] = n
		}
	}
	return s
}

// Summary is what was counted, in a form that passes between processes.
type Summary struct {
	Max time.Duration
	By  map[int]uint64 // bucket to number
}

// Merge adds what other counted.
func (s *Summary) Merge(other Summary) {
	s.Max = max(s.Max, other.Max)
	if s.By == nil {
		s.By = make(map[int]uint64)
	}
	for i, n := range other.By {
		s.By[i] += n
	}
}

// Count returns how many durations there are.
func (s *Summary) Count() uint64 {
	var sum uint64
	for _, n := range s.By {
		sum += n
	}
	return sum
}

// Quantile returns the duration that the share q (0 to 1) does not exceed:
// the upper end of its bucket, but never more than Max. It is 0 where nothing
// was counted.
func (s *Summary) Quantile(q float64) time.Duration {
	count := s.Count()
	if count == 0 {
		return 0
	}
	rank := max(uint64(q*float64(count)+0.5), 1)
	var sum uint64
	for i := range buckets {
		if sum += s.By[i]; sum >= rank {
			return min(time.Duration(upper(i)), s.Max)
		}
	}
	return s.Max
}

// bucket returns where v is counted: below cuts it is v itself, above that
// the highest bit and the cutBits behind it decide.
func bucket(v uint64) int {
	if v < cuts {
		return int(v)
	}
	shift := bits.Len64(v) - cutBits - 1
	return (shift+1)*cuts + int(v>>shift) - cuts
}

// upper returns the largest value of a bucket.
func upper(i int) uint64 {
	if i < cuts {
		return uint64(i)
	}
	shift := i/cuts - 1
	return (uint64(i%cuts)+cuts+1)<<shift - 1
}
