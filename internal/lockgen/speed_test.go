package lockgen_test

import (
	"context"
	"testing"

	"github.com/lockmw/kit/funclock"
	"github.com/lockmw/kit/internal/lockgen"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/basic"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/lockmw"
)

// What the decorators of package basic make their keys of, as it stands there.
var speeds = []struct {
	name string
	spec funclock.Spec
	key  func(l *funclock.Lock, order *basic.Order) funclock.Call
}{
	{"Pay", funclock.Spec{Name: "basic.Orders.Pay", Keys: []string{"{value.order.ID|lower}"}, Values: []string{"order.ID"}},
		func(l *funclock.Lock, order *basic.Order) funclock.Call { return l.Key(funclock.String(order.ID)) }},
	{"Store", funclock.Spec{Name: "basic.Orders.Store", Keys: []string{"shelf:{value.order.Shelf}:{value.order.ID}"}, Values: []string{"order.Shelf", "order.ID"}},
		func(l *funclock.Lock, order *basic.Order) funclock.Call {
			return l.Key(funclock.Int(order.Shelf), funclock.String(order.ID))
		}},
}

var order = &basic.Order{ID: "0f8fad5b-d9cb-469f-a165-70867728950e", Shelf: 4711}

func TestAGeneratedKeyCostsFewAllocations(t *testing.T) {
	const most = 4
	locks := doortest.Instant(t)
	for _, s := range speeds {
		l := funclock.New(locks, s.spec)
		if got := testing.AllocsPerRun(100, func() { s.key(l, order) }); got > most {
			t.Errorf("%s: %v allocations, want at most %d", s.name, got, most)
		}
	}
	// The whole method, beside the same lock taken by hand under a key that is there.
	orders := basic.LockOrders(silent{}, locks)
	method := testing.AllocsPerRun(100, func() { _, _ = orders.Pay(t.Context(), *order) })
	byHand := testing.AllocsPerRun(100, func() {
		_ = locks.WithLock(t.Context(), order.ID, lockmw.Policy{Prefix: "order:"}, func(context.Context) error { return nil })
	})
	if method > byHand+most {
		t.Errorf("a generated method costs %v allocations, and the lock in it %v", method, byHand)
	}
}

func BenchmarkKey(b *testing.B) {
	locks := doortest.Instant(b)
	for _, s := range speeds {
		l := funclock.New(locks, s.spec)
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.key(l, order)
			}
		})
	}
}

// One package, with all that the go command does for it.
func BenchmarkGenerate(b *testing.B) {
	for b.Loop() {
		done, err := lockgen.Generate(b.Context(), lockgen.Request{Dir: "testdata/golden/basic"})
		if err != nil || len(done.Problems) > 0 {
			b.Fatal(done.Problems, err)
		}
	}
}

// silent does nothing.
type silent struct{ basic.Orders }

func (silent) Pay(context.Context, basic.Order) (basic.Receipt, error) { return basic.Receipt{}, nil }
