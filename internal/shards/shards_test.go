package shards

import (
	"strconv"
	"testing"
)

// Every key has its part, which is one of all parts, and keys that differ do not all meet.
func TestEveryKeyHasOnePart(t *testing.T) {
	var counts Of[int]
	const keys = 100 * count
	for range 2 {
		for i := range keys {
			*counts.Part(strconv.Itoa(i))++
		}
	}
	parts, sum := 0, 0
	for n := range counts.All() {
		parts++
		sum += *n
		switch {
		case *n%2 != 0:
			t.Errorf("a key came to another part the second time: %d", *n)
		case *n == 0:
			t.Errorf("none of %d keys has this part", keys)
		}
	}
	if parts != count || sum != 2*keys {
		t.Errorf("%d parts with %d, want %d with %d", parts, sum, count, 2*keys)
	}
}

// Who has seen enough of the parts sees no more.
func TestAllEndsWithItsReader(t *testing.T) {
	var parts Of[int]
	n := 0
	for range parts.All() {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d parts, want 2", n)
	}
}
