package combos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/lockmw"
)

// A round is one combination, from the making of a client to the end of its
// goroutines.
//
// Two Lockers share the site: ours reaches it through the proxies, as the
// combination says, and the witness past them, as another process would. Ours
// holds the key "mine" all along, the witness, or ours, the key "taken". Bursts
// of callers come before, during and after each fault.
type round struct {
	c      Combination
	fault  fault
	site   *site
	open   func(redis.UniversalClient, Settings) (Locker, error)
	rnd    *rand.Rand
	began  time.Time
	meter  *stalls.Meter
	pulse  *stalls.Meter // how long servers took for a ping
	exact  bool          // a busy machine excuses nothing: the mistake is known
	dial   time.Duration // how long a slow dialer takes
	length time.Duration // of the present fault
	reign  string        // which master there must be at the end: otherwise the Sentinels have replaced one that nobody had struck

	namespace string
	client    redis.UniversalClient // the user's
	ours      Locker
	witness   Locker
	others    []redis.UniversalClient

	callers    sync.WaitGroup
	background sync.WaitGroup // of bursts
	faulting   sync.WaitGroup // of the fault
	ids        atomic.Int64
	blockings  atomic.Int64 // how often an observer may still block
	logged     atomic.Int64 // how many log records have blocked
	unblock    chan struct{}
	whole      context.Context // of all callers; it is ended if they do not come back
	giveUp     context.CancelFunc

	mu         sync.Mutex
	calls      []call
	windows    []window
	follows    time.Duration // when the user's own client had followed a new master; 0: it did not have to
	violations []Violation
	closing    time.Duration // when the Locker began to be closed; 0: not yet
	worst      map[string]time.Duration
}

// pulse is how often each server is asked for a sign of life.
const pulse = 50 * time.Millisecond

// window is the time of one fault.
type window struct{ from, to time.Duration }

func newRound(s *site, c Combination, open func(redis.UniversalClient, Settings) (Locker, error)) *round {
	r := &round{
		c: c, fault: faultOf(c), site: s, open: open, rnd: rand.New(rand.NewPCG(c.Seed, 3)), began: time.Now(),
		meter: new(stalls.Meter), pulse: new(stalls.Meter), namespace: fmt.Sprintf("r%x", c.Seed), unblock: make(chan struct{}), worst: make(map[string]time.Duration),
	}
	r.dial = pick(r.rnd, 200*time.Millisecond, 800*time.Millisecond)
	r.whole, r.giveUp = context.WithCancel(context.Background())
	r.blockings.Store(2)
	return r
}

// start opens the Lockers.
func (r *round) start() error {
	r.site.distance(r.c.Distance)
	r.client = r.site.client(r.c, r.dial, r.unblock)
	var err error
	r.ours, err = r.open(r.client, Settings{Namespace: r.namespace, Observer: r.observer(), Logger: r.logger()})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	r.witness, err = r.openWitness()
	return err
}

func (r *round) openWitness() (Locker, error) {
	client := r.site.direct()
	r.others = append(r.others, client)
	return r.open(client, Settings{Namespace: r.namespace})
}

func (r *round) now() time.Duration { return time.Since(r.began) }

func (r *round) check(err error) {
	if err != nil {
		r.violatef("harness", "%v", err)
	}
}

// run is the round's life.
func (r *round) run() {
	r.meter = stalls.Start()
	defer r.meter.Stop()
	defer redistest.Pulse(r.pulse, pulse, redistest.Silences, r.site.admins...)() // past the proxies
	defer r.giveUp()
	if err := r.start(); err != nil {
		r.violatef("open", "%v", err)
		return
	}
	p := r.policy()
	if r.rnd.IntN(5) > 0 && r.c.Site != nodeSite { // otherwise its first connections are made by the first burst
		r.holder(r.ours, byOurs, []string{"warm"}, p)()
	}
	var drops []func()
	if r.c.Site != nodeSite {
		drops = append(drops, r.holder(r.ours, byOurs, r.mine(), p))
	}
	if r.c.Keys == takenKey {
		locks, by := r.witness, byWitness
		if r.c.Site != nodeSite && r.rnd.IntN(3) == 0 {
			locks, by = r.ours, byOurs
		}
		exclusive := p
		exclusive.Mode = lockmw.Exclusive
		drops = append(drops, r.holder(locks, by, []string{"taken"}, exclusive))
	}
	for range r.injections() {
		r.inject()
		r.finish()
	}
	for _, drop := range slices.Backward(drops) {
		drop()
	}
	if r.fault.sees == elects {
		r.restore()
	}
	r.judge()
	r.judgeKeys()
	r.close()
}

// injections returns how often the fault is done: those that take little time more
// than once.
func (r *round) injections() int {
	switch {
	case r.c.Times > 0:
		return r.c.Times
	case r.c.Closes, r.c.Length == long, r.fault.sees == elects, r.fault.sees == moves:
		return 1
	case r.c.Length == brief, r.c.Load == crowd:
		return 2
	}
	return 3
}

// inject does the fault once, with bursts around it.
func (r *round) inject() {
	n := r.c.Load
	r.length = r.c.lasts(r.rnd)
	before, during, after := true, true, true
	if n == crowd { // one of them is enough
		at := r.rnd.IntN(3)
		before, during, after = at == 0, at == 1, at == 2
	}
	if r.fault.idle {
		before, during, after = true, false, true
	}
	if before {
		r.burst(n)
		if r.fault.idle {
			r.finish()
			time.Sleep(20*time.Millisecond + 8*r.c.Distance) // until the connections that were being set up rest, too
		}
	}
	time.Sleep(time.Duration(r.rnd.IntN(30)) * time.Millisecond)
	w := window{from: r.now()}
	r.mu.Lock()
	r.windows = append(r.windows, window{w.from, 1 << 62}) // its end is not known yet
	r.mu.Unlock()
	var around sync.WaitGroup
	if during {
		into := time.Duration(r.rnd.Int64N(int64(min(max(r.length/2, time.Millisecond), 200*time.Millisecond))))
		around.Go(func() {
			time.Sleep(into)
			r.burst(n)
		})
	}
	if r.c.Length == long && n < crowd {
		around.Go(func() { time.Sleep(knownAfter + 100*time.Millisecond); r.burst(n) })
	}
	if r.c.Closes {
		around.Go(func() { time.Sleep(r.length / 2); r.closeOurs() })
	}
	r.fault.begin(r)
	time.Sleep(r.length)
	r.fault.end(r)
	w.to = r.now()
	r.mu.Lock()
	r.windows[len(r.windows)-1] = w
	r.mu.Unlock()
	around.Wait()
	if after {
		if r.fault.sees != well && r.rnd.IntN(3) == 0 {
			time.Sleep(grace(r.fault.sees, r.c.Length) + 50*time.Millisecond) // all must be well then
		}
		r.burst(n)
	}
}

// finish waits for all callers. Those that do not come back are ended, and that is
// a fault: all have a budget, or their turn comes.
func (r *round) finish() {
	done := make(chan struct{})
	go func() { r.callers.Wait(); close(done) }()
	most := finishes
	if r.c.Patience == forever { // one after the other, each with three round trips for each of its keys
		most += time.Duration(r.c.Load*r.c.keysOf()) * 6 * r.c.Distance
	}
	select {
	case <-done:
		return
	case <-time.After(most):
	}
	r.violatef(ruleWait, "callers are not back %v after the fault", most)
	r.giveUp()
	select {
	case <-done:
	case <-time.After(finishes):
		panic("callers do not come back, though their contexts have ended")
	}
}

const finishes = 8 * time.Second
