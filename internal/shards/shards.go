// Package shards keeps what many goroutines change in parts, by key, with a mutex each. A
// mutex that all share costs little while one core works, and most of the time where
// several do: they meet at it, and Go's mutex then spins, for more than a microsecond each
// time. Goroutines that have different keys do not wait for each other, so they are not to
// meet at a mutex either.
package shards

import (
	"hash/maphash"
	"iter"
)

// count is how many parts there are. It makes it unlikely that two cores are at work in
// one, in which each is for some 50 ns.
const count = 32

var seed = maphash.MakeSeed()

// An Of has the parts of something whose parts are Ts. A part has a mutex of its own, and
// nobody holds those of two parts at the same time. The zero Of has zero parts.
type Of[T any] [count]struct {
	part T
	_    [64]byte // a core that writes to a part does not take the next one's cache line away
}

// Part returns the part that has key: the same one each time.
func (s *Of[T]) Part(key string) *T {
	return &s[maphash.String(seed, key)%count].part
}

// All returns all parts.
func (s *Of[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range s {
			if !yield(&s[i].part) {
				return
			}
		}
	}
}
