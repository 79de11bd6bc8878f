// Package matrix has worker processes take locks on real servers while a nemesis injects faults, and judges the
// histories. A lane is a Redis (one server, a Cluster, a quorum or what Sentinels watch) with its workers and its
// nemesis. lane.go starts one over a single server and injects into it, end.go ends it; judge.go says what became of all
// lanes. kind.go says what a kind of fault is, and which file lists which kinds.
package matrix

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/admin"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/fenced"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/skew"
	"github.com/lockmw/kit/proof/worker"
)

// epoch is after how long keys get other names (Lane.nameNow), so that no history grows too long
// for porcupine.
const epoch = 5 * time.Second

// workersPerLane is how many processes share a lane's Redis, where its load does not want more.
const workersPerLane = 3

// Lane is a Redis with worker processes. With one server each worker has a proxy of its own; a quorum has one before
// each node, and the others have none. Its methods are for one goroutine, the nemesis of the lane, but for
// began and watch, and for do, check and force, which between also has called from a proxy's.
type Lane struct {
	Name string
	TTL  time.Duration

	tb      testing.TB
	rnd     *rand.Rand
	store   *fenced.Store
	sql     string            // how workers open the PostgreSQL that they write to in the place of store; empty: they do not
	workers []*worker.Process // each in a place, a number below places; another worker may come to it
	places  int
	all     []*worker.Process // with those that have ended
	started int
	desk    *desk

	// Of a lane with one server; nil or empty in others.
	redis   *redistest.Server
	admin   *redis.Client       // not through a proxy
	proxies []*faultproxy.Proxy // by the worker's place
	rival   *rival

	mu       sync.Mutex
	latest   map[string]time.Duration // by the key's name without its epoch: when the latest hold began
	passings map[string]*passing      // by that name too
	eternal  map[string]struct{}      // keys that were seen without a TTL
	watching sync.WaitGroup
	unwatch  context.CancelFunc

	nodes       []*redistest.Server // all that may hold keys
	admins      []*redis.Client     // of the nodes
	where       func(place int) engines.Redis
	load        []worker.Key
	loadAt      func(place int) []worker.Key // not nil: the load differs from one place to the next
	turnKeys    []string                     // whose holds are short, so that a new one must begin soon
	shards      *redistest.Shards
	watched     *redistest.Watched
	nodeProxies []*faultproxy.Proxy // before each node of a quorum

	epoch time.Duration // zero: keys keep their names; see nameNow

	clock *skew.Clock   // nil unless the server's clock can be moved
	skew  time.Duration // how far it was

	before     time.Duration // Redis had not forgotten yet; see forget
	moment     time.Duration // it had
	injections []Injection
}

// keys is the load: short turns on a lock of each kind, mutexes that are held
// long enough to be renewed, one, f, that is mostly free, and one, h, that is handed on by tickets.
func keys(ttl time.Duration) []worker.Key {
	turn := worker.Key{Least: time.Millisecond, Most: 15 * time.Millisecond, Think: 40 * time.Millisecond, Goroutines: 3}
	m, r, p := turn, turn, turn
	m.Name, m.Kind = "m", history.Mutex
	r.Name, r.Kind, r.Writers = "r", history.Readers, 4
	p.Name, p.Kind, p.Permits = "p", history.Permits, 2
	all := []worker.Key{m, r, p}
	return append(all, long("l1", ttl), long("l2", ttl), mostlyFree(), handed(handedOn, 1, 2))
}

// handedOn is the key of the common load whose holders hand it on.
const handedOn = "h"

// handed is a mutex that so many goroutines of each process take turns on, each of which hands it on to a job, and that to others, so often.
func handed(name string, goroutines, hands int) worker.Key {
	return worker.Key{Name: name, Kind: history.Mutex, Goroutines: goroutines, Least: time.Millisecond, Most: 15 * time.Millisecond, Think: 100 * time.Millisecond, Hands: hands}
}

// mostlyFree is the key that is free most of the time.
func mostlyFree() worker.Key {
	return worker.Key{Name: "f", Kind: history.Mutex, Goroutines: 1, Least: time.Millisecond, Most: 15 * time.Millisecond, Think: 100 * time.Millisecond}
}

// long is a mutex that is held long enough to be renewed.
func long(name string, ttl time.Duration) worker.Key {
	return worker.Key{Name: name, Kind: history.Mutex, Goroutines: 1, Least: ttl / 4, Most: 3 * ttl / 2, Think: ttl / 20}
}

// NewLane starts a lane; it ends with the test. The options change it before it has workers.
func NewLane(tb testing.TB, name string, seed uint64, ttl time.Duration, needs string, options ...func(*Lane)) *Lane {
	tb.Helper()
	l := newLane(tb, name, seed, ttl)
	for _, change := range options {
		change(l)
	}
	persistent := redistest.Args("--appendonly", "yes", "--appendfsync", "always")
	var ofServer []redistest.Option
	switch needs {
	case fromFile:
		ofServer = append(ofServer, persistent)
	case movedClock:
		clock, option := skew.New(tb)
		l.clock = clock
		ofServer = append(ofServer, option)
	case tenured, tenuredForgetful:
		l.tenures()
	case ticketed, ticketedForgetful:
		l.tickets()
	case answersUncertain, answersAgain:
		l.answers(needs == answersUncertain)
		ofServer = append(ofServer, persistent)
	}
	l.redis = redistest.Real(tb, ofServer...)
	l.nodes = []*redistest.Server{l.redis}
	for range l.places {
		l.proxies = append(l.proxies, faultproxy.Start(tb, l.redis.Addr()))
	}
	l.where = func(place int) engines.Redis { return engines.One(l.proxies[place].Addr()) }
	if needs == narrow {
		l.where = func(place int) engines.Redis {
			return engines.Redis{Addrs: []string{l.proxies[place].Addr()}, Buffer: 2 << 10}
		}
	}
	l.open()
	l.admin = l.admins[0]
	l.rival = newRival(tb, l.redis)
	return l
}

func newLane(tb testing.TB, name string, seed uint64, ttl time.Duration) *Lane {
	tb.Helper()
	return &Lane{
		places: workersPerLane, desk: newDesk(seed, ttl), Name: name, TTL: ttl, tb: tb, rnd: rand.New(rand.NewPCG(seed, 0)), store: fenced.Start(tb),
		latest: make(map[string]time.Duration), passings: make(map[string]*passing), eternal: make(map[string]struct{}),
		load: keys(ttl), turnKeys: []string{"m", "r", "p"}, epoch: epoch,
	}
}

// open starts the workers, and the watch over the nodes.
func (l *Lane) open() {
	l.admins = admin.Clients(l.tb, l.nodes)
	for place := range l.places {
		l.workers = append(l.workers, nil)
		l.hire(place)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.unwatch = cancel
	l.watching.Go(func() { l.watch(ctx) })
	l.watching.Go(func() { l.desk.serve(ctx) })
	l.tb.Cleanup(func() { cancel(); l.watching.Wait() })
}

// hire starts a worker in a place.
func (l *Lane) hire(place int) {
	l.started++
	p := worker.Start(l.tb, worker.Config{
		Name: fmt.Sprintf("%s.%d", l.Name, l.started), Engine: engines.Ours, Redis: l.where(place), Fenced: l.store.Addr(), SQL: l.sql,
		Seed: l.rnd.Uint64(), TTL: l.TTL, Wait: 2 * l.TTL, Epoch: l.epoch, Rest: rest(), Keys: l.loadOf(place),
	}, worker.Listener{Began: l.began, Queued: l.desk.queued, Did: l.desk.did})
	l.desk.joins(p)
	l.workers[place] = p
	l.all = append(l.all, p)
}

// rest is how long a worker's goroutine rests after a refusal. A short run is one on a machine that is busy with other tests: there some
// hundred goroutines that were refused at once, again and again, kept the servers themselves from their processor time.
func rest() time.Duration {
	if testing.Short() {
		return 200 * time.Millisecond
	}
	return 0
}

// loadOf returns the keys of the worker in a place.
func (l *Lane) loadOf(place int) []worker.Key {
	if l.loadAt != nil {
		return l.loadAt(place)
	}
	return l.load
}

// nameNow returns what the workers call a key at present: m is m@7 in epoch 7.
func (l *Lane) nameNow(key string) string {
	if l.epoch == 0 {
		return key
	}
	return fmt.Sprintf("%s@%d", key, clock.Now()/l.epoch)
}

// began notes the progress of a key.
func (l *Lane) began(h history.Hold) {
	name, _, _ := strings.Cut(h.Key, "@")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest[name] = max(l.latest[name], h.Began)
	l.passes(name, h)
}

// watch looks for keys that would stay for ever.
func (l *Lane) watch(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, client := range l.admins {
				l.lookForEternal(ctx, client)
			}
		}
	}
}

// lookForEternal notes the keys of a server that would stay for ever.
func (l *Lane) lookForEternal(ctx context.Context, client *redis.Client) {
	names, _ := client.Keys(ctx, "lock:*").Result()
	ttls := make([]*redis.DurationCmd, len(names))
	_, _ = client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // at once: there are thousands of answers
		for i, name := range names {
			ttls[i] = pipe.PTTL(ctx, name)
		}
		return nil
	})
	for i, name := range names {
		if d, err := ttls[i].Result(); err == nil && d == -1 {
			l.mu.Lock()
			l.eternal[name] = struct{}{}
			l.mu.Unlock()
		}
	}
}

// place draws one of the workers' places.
func (l *Lane) place() int { return l.rnd.IntN(l.places) }

// part returns a time of about this share of the TTL, between 0.8 and 1.2 of it. What decides a fault's outcome by being longer
// or shorter than the TTL, or than the third of it after which a lock is renewed, is such a share, since the TTL of a short
// run is half of that of a long one. Times that have nothing to do with it, such as the pauses between one SCRIPT FLUSH and the next, are
// written as they are.
func (l *Lane) part(share float64) time.Duration {
	return time.Duration(share * float64(l.TTL) * (0.8 + 0.4*l.rnd.Float64()))
}

// last lets the fault last.
func (l *Lane) last(d time.Duration) { time.Sleep(d) }

// InjectAll does faults, one after the other. Of some it turns out later that they met no hold, where a worker on a busy machine tells late of
// what it had given back: those are done again at the end.
func (l *Lane) InjectAll(kinds []Kind) {
	for rounds := 3; len(kinds) > 0 && rounds > 0; rounds-- {
		for _, kind := range kinds {
			l.Inject(kind)
		}
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind Kind) bool {
			return slices.ContainsFunc(l.injections, func(in Injection) bool { return in.Kind == kind.Name && l.heldAt(in.Began) })
		})
	}
}

// heldAt reports whether anybody held a lock at that moment, as far as is known.
func (l *Lane) heldAt(at time.Duration) bool {
	return slices.ContainsFunc(l.all, func(p *worker.Process) bool { return p.HeldAt(at) })
}

// Inject does one fault while somebody holds a lock, and waits until the lane is alive again. On a
// busy machine the lock may be released before the fault begins: then it is done again, for as long as the lane is patient, and a few times anyway.
func (l *Lane) Inject(kind Kind) {
	const tries = 5
	till := clock.Now() + l.patience()
	for try := 0; try < tries || clock.Now() < till; try++ {
		began := l.injectOnce(kind)
		if l.heldAt(began) {
			return
		}
	}
}

// injectOnce does a fault, and returns when it began.
func (l *Lane) injectOnce(kind Kind) (began time.Duration) {
	l.awaitHolders()
	l.last(time.Duration(l.rnd.Int64N(int64(l.TTL / 4)))) // meet the holders at any point of their renewal
	l.awaitHolders()                                      // once more, since all may have released by now
	began = clock.Now()
	in := Injection{Kind: kind.Name, Forgets: kind.Forgets, Lane: l.Name, Began: began, At: began}
	in.Gone = kind.Do(l)
	l.last(kind.Ahead)
	in.At, in.Before = max(in.At, l.moment), l.before
	in.Healed = clock.Now()
	in.Alive, in.Dead = l.alive(in.Healed, l.turnKeys)
	l.injections = append(l.injections, in)
	return began
}

// awaitHolders waits until each key has had a holder, and one of them is held now. A fault among workers that still
// start, or that hold nothing, strikes nobody: the judge fails one that met no hold.
func (l *Lane) awaitHolders() {
	for deadline := clock.Now() + l.patience(); ; time.Sleep(2 * time.Millisecond) {
		never := l.neverHeld()
		if len(never) == 0 && slices.ContainsFunc(l.workers, (*worker.Process).Holds) {
			return
		}
		if clock.Now() > deadline {
			l.tb.Errorf("%s: before the fault nobody holds a lock, or keys have never been held: %v; the last refusals:\n%s", l.Name, never, l.lastRefusals())
			return
		}
	}
}

// lastRefusals tells what the workers were last told in place of a lock.
func (l *Lane) lastRefusals() string {
	const most = 3 // of each worker
	var lines []string
	for _, p := range l.workers {
		all := p.Saw().Refusals
		for _, r := range all[max(0, len(all)-most):] {
			lines = append(lines, fmt.Sprintf("%s: %s, asked for at %v, told at %v: %s", p.Config.Name, r.Key, r.Asked, r.Returned, r.Err))
		}
	}
	return strings.Join(lines, "\n")
}

// neverHeld returns the keys that have had no holder yet.
func (l *Lane) neverHeld() (never []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for place := range l.workers {
		for _, key := range l.loadOf(place) {
			if _, had := l.latest[key.Name]; !had && !slices.Contains(never, key.Name) {
				never = append(never, key.Name)
			}
		}
	}
	return never
}

// patience is how long the nemesis waits for what the workers must come to. A short run is one on a machine that is busy with other tests.
func (l *Lane) patience() time.Duration {
	if testing.Short() {
		return 10*l.TTL + time.Minute
	}
	return 10*l.TTL + 20*time.Second
}

// alive waits until each of some keys has a holder that began after since. It returns when the last of those did, and
// the keys that have none.
func (l *Lane) alive(since time.Duration, keys []string) (at time.Duration, dead []string) {
	deadline := since + l.patience()
	for {
		dead = dead[:0]
		l.mu.Lock()
		for _, key := range keys {
			if l.latest[key] <= since {
				dead = append(dead, key)
			} else {
				at = max(at, l.latest[key])
			}
		}
		l.mu.Unlock()
		if len(dead) == 0 || clock.Now() > deadline {
			return at, dead
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// oldest returns the worker that has been there the longest.
func (l *Lane) oldest() *worker.Process {
	for _, p := range l.all {
		if slices.Contains(l.workers, p) {
			return p
		}
	}
	return l.workers[0]
}
