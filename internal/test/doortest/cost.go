package doortest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// What an observer with metrics may add to an Acquire and its Release.
const (
	addedAllocs = 2
	rounds      = 41
	turnsEach   = 2000
)

// turn takes a lock and gives it back.
func turn(tb testing.TB, ctx context.Context, l *lockmw.Locker, name string) { //nolint:revive // tb comes first, as everywhere
	_, lease, err := l.Acquire(ctx, "k", lockmw.Policy{Name: name})
	if err == nil {
		err = lease.Release(ctx)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// AddsFewAllocations wants an option to add no more than two allocations to an Acquire and
// its Release.
func AddsFewAllocations(t *testing.T, opt lockmw.Option) {
	t.Helper()
	least := func(l *lockmw.Locker) float64 { // pools lose things now and then
		n := testing.AllocsPerRun(500, func() { turn(t, context.Background(), l, "pay") })
		for range 4 {
			n = min(n, testing.AllocsPerRun(500, func() { turn(t, context.Background(), l, "pay") }))
		}
		return n
	}
	without, with := least(Instant(t)), least(instantWith(t, opt))
	t.Logf("%v allocations, and %v with it", without, with)
	if with-without > addedAllocs {
		t.Errorf("it adds %v allocations to %v, want at most %v", with-without, without, addedAllocs)
	}
}

// BenchmarkAdded reports how long an Acquire and its Release take without an option, and how
// much longer with it: the median, the tenth and the ninetieth percentile of rounds that
// alternate.
func BenchmarkAdded(b *testing.B, ctx context.Context, opt lockmw.Option) { //nolint:revive // b comes first, as everywhere
	b.Helper()
	without, with := Instant(b), instantWith(b, opt)
	run := func(l *lockmw.Locker) float64 {
		began := time.Now()
		for range turnsEach {
			turn(b, ctx, l, "pay")
		}
		return float64(time.Since(began).Nanoseconds()) / turnsEach
	}
	run(without)
	run(with)
	for b.Loop() {
		var base, added []float64
		for range rounds {
			one := run(without)
			base, added = append(base, one), append(added, run(with)-one)
		}
		slices.Sort(base)
		slices.Sort(added)
		b.ReportMetric(base[rounds/2], "ns-without")
		b.ReportMetric(added[rounds/2], "ns-added")
		b.ReportMetric(added[rounds/10], "ns-added-p10")
		b.ReportMetric(added[rounds*9/10], "ns-added-p90")
	}
}

// NamesTakeNoMemory wants a Locker with the options to have as much memory after locks of
// 100,000 names as after those of 10,000. look is called after each, if it is not nil.
func NamesTakeNoMemory(t *testing.T, look func(names int), opts ...lockmw.Option) {
	t.Helper()
	l := instantWith(t, opts...)
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // the first one leaves what pools have
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before, n := heap(), 0
	use := func(names int) int64 {
		for ; n < names; n++ {
			p := lockmw.Policy{Name: fmt.Sprint("a policy that is made of data: ", n)}
			_, lease, err := l.Acquire(context.Background(), fmt.Sprint("key", n), p)
			if err == nil {
				err = lease.Release(context.Background())
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := l.Acquire(context.Background(), "wrong{", p); err == nil {
				t.Fatal("no refusal")
			}
		}
		if look != nil {
			look(n)
		}
		if left := len(l.Stats().Names); left > 0 {
			t.Errorf("Stats has %d names of which nobody holds or waits", left)
		}
		return heap()
	}
	some, many := use(10_000), use(60_000)
	t.Logf("heap: %d KiB more after 10,000 names, %d KiB more after 60,000", (some-before)>>10, (many-before)>>10)
	const most = 1 << 20 // less than the bytes of 50,000 such names
	if many-some > most {
		t.Errorf("50,000 names more took %d KiB", (many-some)>>10)
	}
	runtime.KeepAlive(l)
}
