// Package rivals does to other libraries what package matrix and package checks
// do to this one, and to this one beside them, in the same run.
package rivals

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/record"
)

func TestMain(m *testing.M) {
	logging.Disable()
	redistest.Main(m)
}

// outcome is what became of one try.
type outcome struct {
	overlap time.Duration // 0: none
	wrong   bool
	stuck   bool
	err     error // of the experiment
}

// An experiment is one thing that goes wrong.
type experiment struct {
	name string
	note string
	skew time.Duration // of Redis's clock
	try  func(b *bench, i int) outcome
}

// bench is where an engine is tried.
type bench struct {
	engine string
	redis  *redistest.Server
	ttl    time.Duration

	mu  sync.Mutex
	rnd *rand.Rand
}

func (b *bench) upTo(d time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Duration(b.rnd.Int64N(int64(d)))
}

// open opens the engine; it is closed at the end of the try.
func (b *bench) open(addr string) (engines.Engine, func(), error) {
	e, err := engines.Open(b.engine, engines.One(addr), b.ttl)
	if err != nil {
		return nil, func() {}, err
	}
	return e, func() { _ = e.Close() }, nil // what it could not give back ends by its TTL
}

// proxied opens the engine behind a proxy of its own.
func (b *bench) proxied() (engines.Engine, *faultproxy.Proxy, func(), error) {
	p, err := faultproxy.New(b.redis.Addr())
	if err != nil {
		return nil, nil, func() {}, err
	}
	e, closeEngine, err := b.open(p.Addr())
	return e, p, func() {
		p.Heal()
		p.Delay(faultproxy.Both, 0)
		p.Cut()
		closeEngine()
		_ = p.Close()
	}, err
}

func (b *bench) ask(key string, wait time.Duration) engines.Ask {
	return engines.Ask{Key: key, TTL: b.ttl, Wait: wait}
}

// free reports whether another client of the engine gets the lock in time.
func (b *bench) free(key string, within time.Duration) (bool, error) {
	e, done, err := b.open(b.redis.Addr())
	if err != nil {
		return false, err
	}
	defer done()
	hold, err := e.Acquire(context.Background(), b.ask(key, within))
	if err != nil {
		return false, nil
	}
	return true, hold.Release(context.Background())
}

// end is when a hold that was not released came to its end.
func end(hold engines.Hold) time.Duration {
	at := clock.Now()
	if until := hold.ValidUntil(); !until.IsZero() {
		at = min(at, clock.Of(until))
	}
	return at
}

// run tries an experiment so many times, some at once.
func run(t *testing.T, engine string, x experiment, tries int, seed uint64) record.Rival {
	t.Helper()
	b := &bench{engine: engine, redis: server(t, x.skew), ttl: ttl(), rnd: rand.New(rand.NewPCG(seed, 0))}
	r := record.Rival{Engine: engine, Experiment: x.name, Tries: tries, Note: x.note}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, 10)
	for i := range tries {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			o := x.try(b, i)
			mu.Lock()
			defer mu.Unlock()
			if o.err != nil {
				t.Errorf("%s, %s: %v", engine, x.name, o.err)
			}
			if o.overlap > 0 {
				r.Overlaps++
				r.Worst = max(r.Worst, o.overlap)
			}
			if o.wrong {
				r.False++
			}
			if o.stuck {
				r.Stuck++
			}
		})
	}
	all.Wait()
	t.Logf("%s, %s: %d of %d overlaps (up to %v), %d wrong answers, %d stuck", engine, x.name, r.Overlaps, r.Tries, r.Worst, r.False, r.Stuck)
	return r
}

// ttl is that of all locks. The short run's machine is busy with other tests, and may stand
// still for a second or two.
func ttl() time.Duration {
	if testing.Short() {
		return 3 * time.Second
	}
	return 2 * time.Second
}

func TestRivals(t *testing.T) {
	seed := record.Seed(t)
	names := engines.All()
	if testing.Short() {
		names = names[:1] // that the experiments work is seen on ours
	}
	var results []record.Rival
	for _, x := range experiments() {
		for _, engine := range names {
			r := run(t, engine, x, record.Pick(2, 50), seed)
			results = append(results, r)
			if engine == engines.Ours && (r.Overlaps > 0 || r.False > 0 || r.Stuck > 0) {
				t.Errorf("ours: %+v", r)
			}
		}
	}
	record.Save(t, "rivals", results)
	for _, name := range names {
		if err := timeline(t, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A rival that has no chance at all would show a mistake of the experiments, so
// each engine must first come through without any fault. In the short run the
// rivals have nobody beside them: rueidislock was seen to let a waiter stand for
// a minute (2026-11-21, four goroutines on one key of an otherwise idle server),
// and a rival's patience is no test of ours.
func TestEveryEngineWorksWithoutFaults(t *testing.T) {
	redis := server(t, 0)
	for _, name := range engines.All() {
		e, err := engines.Open(name, engines.One(redis.Addr()), ttl())
		if err != nil {
			t.Fatal(err)
		}
		var inside, most int
		var mu sync.Mutex
		var all sync.WaitGroup
		crowd := 4
		if testing.Short() && name != engines.Ours {
			crowd = 1
		}
		for range crowd {
			all.Go(func() {
				for range 10 {
					hold, err := e.Acquire(context.Background(), engines.Ask{Key: "k", TTL: ttl(), Wait: time.Minute})
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					mu.Lock()
					inside++
					most = max(most, inside)
					mu.Unlock()
					mu.Lock()
					inside--
					mu.Unlock()
					if err := hold.Release(context.Background()); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		all.Wait()
		if most != 1 {
			t.Errorf("%s: %d at once", name, most)
		}
		if err := e.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := redis.Client(t).Exists(context.Background(), "k").Val(); n != 0 {
		t.Error("a key is left")
	}
}
