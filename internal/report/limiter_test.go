package report

import (
	"fmt"
	"testing"
	"time"
)

// A program that makes a name for each request pays no more memory.
func TestMemoryOfKindsIsBounded(t *testing.T) {
	var l Limiter
	for i := range 10 * mostKinds {
		l.Admits(Kind{Name: fmt.Sprint(i), Reason: "busy"}, time.Unix(int64(i), 0)) // a second apart, so that each is logged
	}
	if len(l.last) != mostKinds {
		t.Errorf("%d kinds are remembered, want %d", len(l.last), mostKinds)
	}
}
