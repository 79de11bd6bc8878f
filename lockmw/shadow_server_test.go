package lockmw_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A load is a recorded one: hot keys, bursts, and quick and slow holders.
func recorded() []arrival {
	draw := rand.New(rand.NewPCG(19, 2)) // a load of which no call gives up within some 30 ms of its turn, so that a slower machine refuses the same ones
	policy := lockmw.Policy{Prefix: "load:", TTL: 10 * time.Second, Wait: time.Second}
	var calls []arrival
	at := time.Duration(0)
	for at < 8*time.Second {
		at += time.Duration(draw.IntN(160)) * time.Millisecond
		n := 1
		if draw.IntN(6) == 0 { // a burst
			n = 8
		}
		key := []string{"hot", "hot", "warm", "cool"}[draw.IntN(4)]
		for range n {
			at += 3 * time.Millisecond // in an order that the machine can keep
			works := time.Duration(20+draw.IntN(60)) * time.Millisecond
			if draw.IntN(12) == 0 {
				works = time.Duration(300+draw.IntN(300)) * time.Millisecond
			}
			calls = append(calls, arrival{at: at, works: works, policy: policy, keys: []string{key}})
		}
	}
	return calls
}

// seenOf are the waits of those who get their lock, in order, and how many are refused.
type seenOf struct {
	waits   []time.Duration
	refused int
}

func (s seenOf) quantile(q float64) time.Duration {
	return s.waits[min(int(q*float64(len(s.waits))), len(s.waits)-1)]
}

func seenBy(acquired, refused []lockmw.Event) seenOf {
	s := seenOf{refused: len(refused)}
	for _, e := range acquired {
		s.waits = append(s.waits, e.Waited)
	}
	slices.Sort(s.waits)
	return s
}

// trueOverlaps counts the works that began while another one of the key ran, from when they really ran.
func trueOverlaps(ran map[string][][2]time.Time) (n int) {
	for _, works := range ran {
		slices.SortFunc(works, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
		var last time.Time
		for _, w := range works {
			if w[0].Before(last) {
				n++
			}
			if w[1].After(last) {
				last = w[1]
			}
		}
	}
	return n
}

// For a recorded load over a real Redis and three Lockers the forecast is within a tenth of what enforcing then shows, and the
// overlaps are those that there were.
func TestTheForecastOfALoad(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s := redistest.Real(t)
	calls := recorded()
	drive := func(shadow bool) (*events, int) {
		seen := new(events)
		var lockers []*lockmw.Locker
		ns := lockmw.WithNamespace(redistest.Prefix(t))
		for range 3 {
			l := testenv.Open(t, s.Client(t), seen.option(), ns)
			_ = l.WithLock(context.Background(), "first", lockmw.Policy{Name: "first", Shadow: shadow}, func(context.Context) error { return nil })
			lockers = append(lockers, l)
		}
		var mu sync.Mutex
		ran := make(map[string][][2]time.Time)
		begin := time.Now()
		var all sync.WaitGroup
		for i, c := range calls {
			time.Sleep(time.Until(begin.Add(c.at)))
			all.Go(func() {
				p := c.policy
				p.Shadow = shadow
				_, lease, err := lockers[i%3].Acquire(context.Background(), c.keys[0], p)
				if err != nil {
					return
				}
				from := time.Now()
				time.Sleep(c.works)
				to := time.Now()
				_ = lease.Release(context.Background())
				mu.Lock()
				defer mu.Unlock()
				ran[c.keys[0]] = append(ran[c.keys[0]], [2]time.Time{from, to})
			})
		}
		all.Wait()
		if shadow {
			await.Within(t, time.Minute, "all forecasts are made", func() bool {
				return len(seen.of(lockmw.EventShadowAcquired))+len(seen.of(lockmw.EventShadowRefused))+len(seen.of(lockmw.EventShadowIncomplete)) >= len(calls)+3
			})
		}
		for _, l := range lockers {
			_ = l.Close(context.Background())
		}
		return seen, trueOverlaps(ran)
	}
	var off []string
	for range 3 { // the two are at different times, and a busy machine is not as busy at both
		began := time.Now()
		tried, overlaps := drive(true)
		enforced, none := drive(false)
		if none > 0 {
			t.Fatalf("%d works overlap under the lock", none)
		}
		forecast := seenBy(tried.of(lockmw.EventShadowAcquired), tried.of(lockmw.EventShadowRefused))
		shows := seenBy(enforced.of(lockmw.EventAcquired), enforced.of(lockmw.EventRefused))
		told, missed := len(tried.of(lockmw.EventShadowOverlap)), len(tried.of(lockmw.EventShadowIncomplete))
		stood := machine.Longest(began, time.Now())
		t.Logf("%d calls: refused %d, forecast %d; p50 %v, %v; p95 %v, %v; p99 %v, %v; overlaps %d, told %d; incomplete %d; the machine stood for %v", len(calls),
			shows.refused, forecast.refused, shows.quantile(.5), forecast.quantile(.5), shows.quantile(.95), forecast.quantile(.95), shows.quantile(.99), forecast.quantile(.99),
			overlaps, told, missed, stood)
		off = nil
		within := func(what string, got, want, least float64) {
			if max(got-want, want-got) > max(want/10, least) {
				off = append(off, fmt.Sprintf("%s: the forecast is %v, and enforcing shows %v", what, got, want))
			}
		}
		within("refusals", float64(forecast.refused), float64(shows.refused), 2)
		within("overlaps", float64(told), float64(overlaps), 2)
		for _, q := range []float64{.5, .95, .99} {
			within(fmt.Sprintf("waits, quantile %v", q), forecast.quantile(q).Seconds(), shows.quantile(q).Seconds(), 0.03)
		}
		if len(off) == 0 {
			return
		}
	}
	if !stoodStill(time.Now().Add(-time.Minute)) {
		t.Error(strings.Join(off, "\n"))
	} else {
		t.Logf("the machine stood still each time: %s", off)
	}
}

// Whatever Redis does, no call in shadow is later than it would be without any lock, and what is not known is counted.
func TestNoShadowWaitsForRedis(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		breaks func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy)
		known  bool // what enforcing would have come to is found out all the same
	}{
		"killed": {breaks: func(_ *testing.T, s *redistest.Server, _ *faultproxy.Proxy) { s.Kill() }},
		"frozen": {breaks: func(t *testing.T, s *redistest.Server, _ *faultproxy.Proxy) {
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Cont() })
		}},
		"slow": {known: true, breaks: func(_ *testing.T, _ *redistest.Server, p *faultproxy.Proxy) {
			p.Delay(faultproxy.Both, 100*time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t)
			client, proxy := proxied(t, s)
			seen := new(events)
			l := testenv.Open(t, client, seen.option())
			p := lockmw.Policy{Shadow: true, Wait: 5 * time.Second}
			mustRelease(t, mustAcquire(t, l, "k", p))
			await.Until(t, "a forecast is made", func() bool { return len(seen.of(lockmw.EventShadowAcquired)) == 1 })
			tc.breaks(t, s, proxy)
			const calls = 300
			var with, without []time.Duration
			began := time.Now()
			for range calls {
				from := time.Now()
				mustRelease(t, mustAcquire(t, l, "k", p))
				with = append(with, time.Since(from))
				from = time.Now()
				ctx, end := context.WithCancel(context.Background())
				end()
				<-ctx.Done()
				without = append(without, time.Since(from))
				time.Sleep(2 * time.Millisecond)
			}
			slices.Sort(with)
			slices.Sort(without)
			t.Logf("a call takes %v (p50), %v (p99), %v at most; without a lock %v (p50), %v at most", with[calls/2], with[calls*99/100], with[calls-1], without[calls/2], without[calls-1])
			// A busy machine is not Redis: the median is looked at, and all calls against what Redis would cost.
			if with[calls/2] > time.Millisecond+without[calls/2] || with[calls-1] > 200*time.Millisecond+without[calls-1] && !stoodStill(time.Now().Add(-5*time.Second)) {
				t.Errorf("calls take %v (p50) and %v at most", with[calls/2], with[calls-1])
			}
			await.Within(t, 20*time.Second, "each call is told of", func() bool {
				acquired, refused := len(seen.of(lockmw.EventShadowAcquired)), len(seen.of(lockmw.EventShadowRefused))
				incomplete := len(seen.of(lockmw.EventShadowIncomplete)) // perhaps also the first call, which was just being given back
				// Where the machine stands still, Redis does not answer in time about some calls. Where Redis alone does, these are few.
				some := incomplete < calls/10 || stoodStill(began)
				return incomplete >= calls || tc.known && (acquired+refused > calls || some && acquired+refused+incomplete > calls)
			})
		})
	}
}

// While half of the Lockers enforce and half are in shadow, those that enforce wait for each other alone, as without the others, and forecasts say
// that they are mixed.
func TestShadowsBesideThoseWhoEnforce(t *testing.T) {
	t.Parallel()
	const (
		works  = 100 * time.Millisecond // in shadow: a call in whose way one of them is waits for about as long, or longer
		margin = works / 2
	)
	c := redistest.Real(t).Client(t)
	told, seen := new(events), new(events)
	ns := lockmw.WithNamespace(redistest.Prefix(t))
	enforces := []*lockmw.Locker{testenv.Open(t, c, seen.option(), ns), testenv.Open(t, c, seen.option(), ns)}
	tries := []*lockmw.Locker{testenv.Open(t, c, told.option(), ns), testenv.Open(t, c, told.option(), ns)}

	// enforce takes the lock 40 times, one after the other, and returns how long that takes half of the calls, and most of them.
	enforce := func() (half, most time.Duration) {
		var waits []time.Duration
		for i := range 40 {
			asked := time.Now()
			lease := mustAcquire(t, enforces[i%2], "k", lockmw.Policy{TTL: 30 * time.Second, Wait: 20 * time.Second})
			waits = append(waits, time.Since(asked))
			time.Sleep(10 * time.Millisecond)
			mustRelease(t, lease)
		}
		slices.Sort(waits)
		return waits[len(waits)/2], waits[len(waits)*9/10]
	}
	began := time.Now()
	halfAlone, mostAlone := enforce()

	ctx, end := context.WithCancel(context.Background())
	var shadows sync.WaitGroup
	for i := range 6 { // the key is in shadow all the time
		shadows.Go(func() {
			for ctx.Err() == nil {
				_ = tries[i%2].WithLock(ctx, "k", lockmw.Policy{Shadow: true, Wait: 100 * time.Millisecond}, func(context.Context) error {
					time.Sleep(works)
					return nil
				})
			}
		})
	}
	await.Until(t, "shadows have the virtual lock", func() bool { return len(told.of(lockmw.EventShadowAcquired)) > 5 })
	half, most := enforce()
	end()
	shadows.Wait()

	queued, again, mixed := 0, 0, 0
	for _, e := range seen.of(lockmw.EventAcquired) {
		if e.Queued {
			queued++
		}
		if e.Attempts > 1 {
			again++
		}
	}
	for _, e := range told.of(lockmw.EventShadowOverlap) {
		if e.Mixed {
			mixed++
		}
	}
	t.Logf("those who enforce have the lock in %v (p50) and %v (p90), and beside shadows in %v and %v; %d waited, %d asked again; %d of %d overlaps are with them",
		halfAlone, mostAlone, half, most, queued, again, mixed, len(told.of(lockmw.EventShadowOverlap)))
	if refused := seen.of(lockmw.EventRefused); len(refused) > 0 && !stoodStill(began) {
		t.Errorf("those who enforce were refused: %+v", refused)
	}
	if half > halfAlone+margin || (most > mostAlone+margin || queued+again > 0) && !stoodStill(began) { // no pause of the machine holds up half of them
		t.Errorf("those who enforce wait for %v (p50) and %v (p90) beside shadows, and for %v and %v without them; %d waited, and %d asked again",
			half, most, halfAlone, mostAlone, queued, again)
	}
	for _, l := range tries {
		if of := l.Stats().Names[""]; mixed == 0 || !of.Mixed || !of.Shadow {
			t.Errorf("%d overlaps are mixed, and Stats are %+v", mixed, of)
		}
	}
}

// BenchmarkShadow is what a call in shadow costs its caller alone. On one processor, no forecast of a batch of calls is made before these are
// over, and the clock stands until all are made.
func BenchmarkShadow(b *testing.B) {
	var made atomic.Int64
	l := testenv.Open(b, redistest.Shared(b).Client(b), lockmw.WithNamespace(redistest.Prefix(b)), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		switch e.Kind {
		case lockmw.EventShadowAcquired, lockmw.EventShadowRefused, lockmw.EventShadowIncomplete:
			made.Add(1)
		}
	}))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ctx, end := context.WithCancel(b.Context())
	defer end()
	p := lockmw.Policy{Shadow: true}
	calls := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		_, lease, err := l.Acquire(ctx, "k", p)
		if err != nil {
			b.Fatal(err)
		}
		_ = lease.Release(ctx)
		if calls++; calls%500 == 0 { // far fewer than forecasts may be under way
			b.StopTimer()
			await.Within(b, time.Minute, "all forecasts are made", func() bool { return made.Load() >= calls })
			b.StartTimer()
		}
	}
}
