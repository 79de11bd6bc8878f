package lockmw

import (
	"context"
	"testing"

	"github.com/lockmw/kit/internal/redistest"
)

// leaseFor takes a lock in an embedded Redis.
func leaseFor(t *testing.T, p Policy) *Lease {
	t.Helper()
	l, err := New(redistest.Embedded(t).Client(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	lease, err := l.Acquire(context.Background(), "k", p)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}
