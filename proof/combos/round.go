package combos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// A round is one combination, from the making of a client to the end of its
// goroutines.
//
// Two Lockers share the site: ours reaches it through the doors, as the
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
	meter  *meter
	exact  bool          // bounds do not grow on a busy machine
	dial   time.Duration // how long a slow dialer takes
	length time.Duration // of the present fault

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
	logged     atomic.Int64 // records that blocked
	unblock    chan struct{}
	whole      context.Context // of all callers; it ends if they do not
	giveUp     context.CancelFunc

	mu         sync.Mutex
	calls      []call
	windows    []window
	follows    time.Duration // when the user's own client had followed a new master; 0: it did not have to
	violations []Violation
	closing    time.Duration // when the Locker began to be closed; 0: not yet
	worst      map[string]time.Duration
}

// window is the time of one fault.
type window struct{ from, to time.Duration }

// call is one call of Acquire and what became of its lease. Times are from the
// beginning of the round.
type call struct {
	id       int
	by       string // ours or the witness
	keys     []string
	holds    bool // it keeps the lock over the faults
	shared   bool
	wait     time.Duration
	asked    time.Duration
	returned time.Duration
	ctxEnded time.Duration // before it returned; 0: it did not
	deadline bool          // that was a deadline
	outcome  string
	open     []string
	err      string
	ended    time.Duration // of the hold
	released time.Duration // Release returned
	lost     bool
	release  string // its error
	panicked string
	blocked  bool // an observer blocked while it was told about this call
	inside   bool // it had the lock then, and Acquire had not returned
}

const (
	byOurs    = "ours"
	byWitness = "the witness"
)

func (r *round) now() time.Duration { return time.Since(r.began) }

func (r *round) check(err error) {
	if err != nil {
		r.violatef("harness", "%v", err)
	}
}

func newRound(s *site, c Combination, open func(redis.UniversalClient, Settings) (Locker, error)) *round {
	r := &round{
		c: c, fault: faultOf(c), site: s, open: open, rnd: rand.New(rand.NewPCG(c.Seed, 3)), began: time.Now(),
		namespace: fmt.Sprintf("r%x", c.Seed), unblock: make(chan struct{}), worst: make(map[string]time.Duration),
	}
	r.dial = pick(r.rnd, 200*time.Millisecond, 800*time.Millisecond)
	r.whole, r.giveUp = context.WithCancel(context.Background())
	r.blockings.Store(2)
	return r
}

// start opens the Lockers.
func (r *round) start() error {
	r.site.distance(r.c.Distance)
	r.client = r.site.client(r.c, r.dial)
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

// observer behaves as the combination says.
func (r *round) observer() func(context.Context, lockmw.Event) {
	switch r.c.Observer {
	case slow:
		at := pick(r.rnd, lockmw.EventAcquired, lockmw.EventContended, lockmw.EventReleased, lockmw.EventReleased, lockmw.EventHandedOver, lockmw.EventRenewed)
		return func(ctx context.Context, e lockmw.Event) {
			if e.Kind != at || r.blockings.Add(-1) < 0 {
				return
			}
			if mark, ok := ctx.Value(markOf{}).(*atomic.Int32); ok {
				mark.Store(int32(e.Kind))
			}
			select {
			case <-time.After(observerBlocks):
			case <-r.unblock:
			}
		}
	case panicking:
		at := pick(r.rnd, lockmw.EventAcquired, lockmw.EventContended, lockmw.EventReleased, lockmw.EventRefused, lockmw.EventHandedOver, lockmw.EventRenewed)
		return func(_ context.Context, e lockmw.Event) {
			if e.Kind == at {
				panic("the observer panics")
			}
		}
	}
	return nil
}

const (
	observerBlocks = 1500 * time.Millisecond // for each of two events
	loggerBlocks   = 6 * time.Second         // from the first record on
)

// markOf is the key of a call's mark that an observer blocked on it.
type markOf struct{}

func (r *round) logger() *slog.Logger {
	switch r.c.Logger {
	case blocked:
		var once sync.Once
		until := make(chan struct{})
		return slog.New(handler{func() {
			once.Do(func() { time.AfterFunc(loggerBlocks, func() { close(until) }) })
			select {
			case <-until:
			default:
				r.logged.Add(1)
				<-until
			}
		}})
	case panicking:
		return slog.New(handler{func() { panic("the logger panics") }})
	}
	return nil
}

// handler does something for each record.
type handler struct{ do func() }

func (handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (h handler) Handle(context.Context, slog.Record) error      { h.do(); return nil }
func (h handler) WithAttrs([]slog.Attr) slog.Handler             { return h }
func (h handler) WithGroup(string) slog.Handler                  { return h }

// policy is the combination's.
func (r *round) policy() lockmw.Policy {
	p := lockmw.Policy{TTL: r.c.TTL, FailOpen: r.c.FailOpen, Permits: r.c.permits()}
	switch wait := r.c.wait(); {
	case wait < 0:
		p.Retries = lockmw.Forever
	case wait > 0:
		p.Wait = wait
	}
	if r.c.Form == minHold {
		p.MinHold = 150 * time.Millisecond
	}
	if p.Permits > 0 && r.ours.Validate(p) != nil {
		p.Permits = 3 // so many are refused, which is as good
	}
	return p
}

// names returns the keys that caller number i wants.
func (r *round) names(i int) []string {
	name := fmt.Sprint("own", i)
	switch r.c.Keys {
	case oneKey:
		name = "one"
	case takenKey:
		name = "taken"
	}
	keys := []string{name}
	for len(keys) < r.c.keysOf() {
		key := fmt.Sprint(name, "-", len(keys))
		if r.c.Keys == takenKey {
			key = fmt.Sprint("free", i, "-", len(keys))
		}
		keys = append(keys, key)
	}
	return keys
}

// mine returns the keys that ours holds all along.
func (r *round) mine() []string {
	keys := []string{"mine"}
	for len(keys) < r.c.keysOf() {
		keys = append(keys, fmt.Sprint("mine-", len(keys)))
	}
	return keys
}

// burst has n callers come at once.
func (r *round) burst(n int) {
	ctx, end := context.WithCancel(r.whole)
	var when time.Duration
	switch r.c.Shape {
	case cancelled:
		when = time.Duration(3+r.rnd.IntN(80)) * time.Millisecond
	case deadlines:
		end()
		ctx, end = context.WithTimeout(r.whole, time.Duration(20+r.rnd.IntN(100))*time.Millisecond)
	}
	if when > 0 {
		r.background.Go(func() {
			time.Sleep(when)
			end()
		})
	} else {
		context.AfterFunc(r.whole, end)
	}
	p := r.policy()
	var burst sync.WaitGroup
	for i := range n {
		k := call{by: byOurs, keys: r.names(i), wait: r.c.wait()}
		q := p
		if r.c.Form == shared && i%4 != 0 {
			q.Mode, k.shared = lockmw.Shared, true
		}
		hold := time.Duration(1+r.rnd.IntN(4)) * time.Millisecond
		if n < crowd && i%10 == 1 && r.c.Keys == ownKeys {
			hold = 500 * time.Millisecond // it is renewed, where the TTL is short
		}
		burst.Add(1)
		r.callers.Go(func() { defer burst.Done(); r.call(ctx, r.ours, k, q, hold) })
	}
	if n < crowd && r.c.Keys == oneKey { // another process wants it too
		for range min(3, n) {
			k := call{by: byWitness, keys: r.names(0), wait: r.c.wait()}
			r.callers.Go(func() { r.call(ctx, r.witness, k, p, 2*time.Millisecond) })
		}
	}
	r.background.Go(func() { burst.Wait(); end() })
}

// call is one call of Acquire; it holds what it got for a while.
func (r *round) call(ctx context.Context, locks Locker, k call, p lockmw.Policy, hold time.Duration) {
	held := r.acquire(ctx, locks, &k, p)
	if held != nil {
		timer := time.NewTimer(hold)
		select {
		case <-timer.C:
		case <-held.Context().Done():
		}
		timer.Stop()
		r.release(held, &k)
	}
	r.note(k)
}

func (r *round) note(k call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, k)
}

// acquire calls Acquire and notes what came of it.
func (r *round) acquire(ctx context.Context, locks Locker, k *call, p lockmw.Policy) (lease Lease) {
	k.id = int(r.ids.Add(1))
	var mark atomic.Int32
	var endedAt atomic.Int64
	stop := context.AfterFunc(ctx, func() { endedAt.Store(int64(r.now())) })
	defer func() {
		stop()
		if err := recover(); err != nil {
			k.panicked, k.outcome = fmt.Sprint(err), other
			k.returned = r.now()
			lease = nil
		}
		at := lockmw.EventKind(mark.Load())
		k.blocked, k.inside = at != 0, at == lockmw.EventAcquired || at == lockmw.EventHandedOver
	}()
	k.asked = r.now()
	lease, open, err := locks.Acquire(context.WithValue(ctx, markOf{}, &mark), k.keys, p)
	k.returned = r.now()
	if at := time.Duration(endedAt.Load()); at > 0 && at < k.returned {
		k.ctxEnded = at
	} else if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		k.ctxEnded = k.returned // it was told sooner than this
	}
	if k.ctxEnded > 0 {
		_, k.deadline = ctx.Deadline()
	}
	switch {
	case err != nil:
		k.outcome, k.err = outcomeOf(err), err.Error()
		return nil
	case len(open) > 0:
		k.outcome, k.open = ranOpen, open
	default:
		k.outcome = granted
	}
	return lease
}

// release ends a hold and gives the lease back.
func (r *round) release(lease Lease, k *call) {
	k.ended = r.now()
	if until := lease.ValidUntil(); !until.IsZero() { // on a busy machine this comes later than the end
		k.ended = min(k.ended, until.Sub(r.began))
	}
	k.lost = k.lost || !lease.Valid()
	defer func() {
		if err := recover(); err != nil {
			k.panicked = fmt.Sprint(err)
		}
		k.released = r.now()
	}()
	if err := lease.Release(context.Background()); err != nil {
		k.release = outcomeOf(err)
		if k.release == other {
			k.release = err.Error()
		}
	}
}

// holder takes a lock that is kept until drop.
func (r *round) holder(locks Locker, by string, keys []string, p lockmw.Policy) (drop func()) {
	k := call{by: by, keys: keys, holds: true, wait: 5 * time.Second}
	p.Wait, p.Retries, p.FailOpen, p.MinHold = 5*time.Second, 0, false, 0
	ctx, cancel := context.WithCancel(context.Background()) // of the lease too
	hangs := time.AfterFunc(20*time.Second, cancel)
	lease := r.acquire(ctx, locks, &k, p)
	hangs.Stop()
	if lease == nil {
		cancel()
		r.note(k)
		return func() {}
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-lease.Context().Done():
			k.lost = true
		case <-stop:
		}
		r.release(lease, &k)
		cancel()
		r.note(k)
	}()
	return func() { close(stop); <-done }
}

// run is the round's life.
func (r *round) run() {
	r.meter = startMeter(r.began)
	defer r.meter.stop()
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
	r.leaves()
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
			time.Sleep(20 * time.Millisecond)
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
	select {
	case <-done:
		return
	case <-time.After(finishes):
	}
	r.violatef(ruleWait, "callers are not back %v after the fault", finishes)
	r.giveUp()
	select {
	case <-done:
	case <-time.After(finishes):
		panic("callers do not come back, though their contexts have ended")
	}
}

const finishes = 8 * time.Second
