package load

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/waits"
)

// turns is a load of goroutines that take one turn after the other.
type turns struct {
	spec    Spec
	wire    *library.Wire
	turners []turner

	begin, end time.Duration // the window, since the start
	start      time.Time
	waits      waits.Counts
	gaps       waits.Counts
	held       atomic.Int64
	released   atomic.Int64 // when the last turn began to give back, since start
	errors     atomic.Int64
	first      sync.Once
	err        string
}

func (t *turns) Run(ctx context.Context, w Window) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.start = time.Now()
	t.begin, t.end = w.Begin.Sub(t.start), w.End.Sub(t.start)
	counts := make([]int64, t.spec.Goroutines)
	var all sync.WaitGroup
	for i := range counts {
		all.Go(func() { counts[i] = t.repeat(ctx, i) })
	}
	use, err := measure(w, t.wire, t.spec.Profile)
	cancel()
	all.Wait()

	r := Result{
		Fewest: math.MaxInt64,
		Waits:  t.waits.Summary(),
		Gaps:   t.gaps.Summary(),
		Held:   time.Duration(t.held.Load()),
		Errors: t.errors.Load(),
		Error:  t.err,
		Allocs: use.allocs, CPU: use.cpu, Commands: use.commands,
		Connections: t.wire.Connections(),
	}
	for _, n := range counts {
		r.Turns += n
		r.Most = max(r.Most, n)
		r.Fewest = min(r.Fewest, n)
	}
	return r, err
}

// repeat takes turns until the window ends and returns how many began in it.
func (t *turns) repeat(ctx context.Context, i int) (count int64) {
	turner, key := t.turners[i%len(t.turners)], t.keys(i)
	// Both outlive the turn, or each would cost allocations that are not the library's.
	var asked, entered time.Duration
	inside := func() {
		entered = time.Since(t.start)
		if t.within(entered) {
			count++
			t.waits.Add(entered - asked)
			// Who asked after the last release did not wait for it.
			if freed := time.Duration(t.released.Load()); t.spec.Keys == One && asked < freed {
				t.gaps.Add(entered - freed)
			}
		}
		if t.spec.Hold > 0 {
			time.Sleep(t.spec.Hold)
		}
		left := time.Since(t.start)
		t.released.Store(int64(left))
		if t.within(entered) {
			t.held.Add(int64(left - entered))
		}
	}
	for ctx.Err() == nil {
		k := key()
		asked, entered = time.Since(t.start), 0
		err := turner.turn(ctx, k, inside)
		switch {
		case err == nil:
		case ctx.Err() != nil && entered == 0:
			// Cut short, it counts as long as it had lasted: a goroutine that
			// starves shall show.
			if asked < t.end {
				t.waits.Add(t.end - asked)
			}
		default:
			t.fail(err)
		}
	}
	return count
}

func (t *turns) within(at time.Duration) bool { return at >= t.begin && at < t.end }

func (t *turns) fail(err error) {
	t.errors.Add(1)
	t.first.Do(func() { t.err = err.Error() })
	time.Sleep(time.Millisecond) // a Redis that is gone refuses at once
}

// keys returns what chooses the keys of goroutine i.
func (t *turns) keys(i int) func() string {
	n := uint64(max(t.spec.KeyCount, 1))
	draw := rand.New(rand.NewPCG(uint64(t.spec.Part), uint64(i)))
	numbered := func(next func() uint64) func() string {
		return func() string { return "key-" + strconv.FormatUint(next(), 10) }
	}
	switch t.spec.Keys {
	case Own:
		// A number, because doors find it in a path or a message.
		key := strconv.Itoa(1 + i + t.spec.Part*1_000_000)
		return func() string { return key }
	case New:
		begin, n := strconv.Itoa(1+i+t.spec.Part*1_000_000)+"-", uint64(0)
		return func() string { n++; return begin + strconv.FormatUint(n, 10) }
	case Zipf:
		return numbered(rand.NewZipf(draw, 1.1, 1, n-1).Uint64)
	case Drawn:
		return numbered(func() uint64 { return draw.Uint64N(n) })
	case One:
	}
	return func() string { return "1" }
}

func (t *turns) Close() error { return closeAll(t.turners) }
