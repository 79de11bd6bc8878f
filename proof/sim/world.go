package sim

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// A Result is what came of a plan.
type Result struct {
	Wrong   []string // what must not be; nil: nothing was
	Calls   int
	Holds   int
	Turns   int           // holds of locks, each of several keys
	Faults  int           // that have happened
	Frees   int           // calls that ran in shadow or off
	Changes int           // of settings
	Took    time.Duration // of the bubble's time
	Met     Met
}

// A world is a plan that is carried out.
type world struct {
	plan    Plan
	server  *embedded
	plain   *redis.Client // past all faults
	judge   *judge
	desk    *desk // nil: there are no settings
	began   time.Time
	parts   []*process
	calls   atomic.Int64
	patient atomic.Int64 // calls whose context neither panics nor ends
	holds   atomic.Int64
	turns   atomic.Int64
	faults  atomic.Int64
	frees   atomic.Int64

	behind sync.WaitGroup // what nobody awaits before all calls have been made

	mu  sync.Mutex
	on  map[Fault]int // what is going on, without its times
	met Met
}

// A process is one Locker and its way to Redis.
type process struct {
	Process
	way   *faultproxy.Proxy
	locks *lockmw.Locker
	gone  atomic.Bool

	nobody atomic.Bool // listens at the other end of its way
}

// Run carries out a plan. Call it outside of a bubble.
func Run(t *testing.T, p Plan) Result {
	t.Helper()
	return run(t, p, nil)
}

// run is Run, with something bad on the side, which the judge does not know of; nil: nothing.
func run(t *testing.T, p Plan, bad func(*world)) (r Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{plan: p, server: newEmbedded(t, p), began: time.Now(), on: make(map[Fault]int), met: make(Met)}
		w.judge = newJudge(w)
		w.plain = w.server.client(t)
		w.desk = newDesk(t, w)
		if w.desk != nil || p.handsOnNow() {
			w.server.sees = w.sees
		}
		for i := range p.Processes {
			w.parts = append(w.parts, w.start(t, p.Processes[i]))
		}
		var working, operating sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		for i, part := range w.parts {
			for _, c := range part.Callers {
				working.Go(func() { w.work(ctx, i, c) })
			}
		}
		if bad != nil {
			working.Go(func() { bad(w) })
		}
		failing := make(chan struct{})
		go func() { defer close(failing); w.fail(ctx) }()
		if p.Operator {
			operating.Go(func() { w.operate(ctx) })
		}
		if w.desk != nil {
			operating.Go(func() { w.desk.operates(ctx) })
		}
		working.Wait()
		w.behind.Wait()
		cancel()
		<-failing
		operating.Wait()
		if n := w.patient.Load(); n > 0 && w.holds.Load()+w.frees.Load() == 0 && len(p.Faults) == 0 {
			w.judge.addf("of %d calls that do not leave none had a lock", n)
		}
		w.end()
		r = Result{
			Wrong: w.judge.wrong, Calls: int(w.calls.Load()), Holds: int(w.holds.Load()), Turns: int(w.turns.Load()), Faults: int(w.faults.Load()),
			Frees: int(w.frees.Load()), Took: time.Since(w.began), Met: w.met,
		}
		if w.desk != nil {
			r.Changes = w.desk.n
		}
	})
	return r
}

// start starts a process.
func (w *world) start(t *testing.T, p Process) *process {
	t.Helper()
	part := &process{Process: p, way: faultproxy.InMemory(w.server.dial)}
	t.Cleanup(func() { _ = part.way.Close() })
	w.distance(part, 0)
	client := redistest.NewClient(t, part.way.Addr(), func(o *redis.Options) { o.Dialer = part.dial })
	opts := []lockmw.Option{lockmw.WithLogger(slog.New(slog.DiscardHandler))}
	if p.Slow > 0 {
		opts = append(opts, lockmw.WithObserver(func(context.Context, lockmw.Event) { time.Sleep(p.Slow) }))
	}
	locks, err := lockmw.New(client, append(opts, w.desk.options(p)...)...)
	if err != nil {
		t.Fatal(err)
	}
	part.locks = locks
	return part
}

// sees looks after a command whether a lock is taken that nobody wants.
func (w *world) sees(args []string, get func(string) any) {
	for _, arg := range args {
		key, isLock := strings.CutPrefix(arg, "lock:{")
		if key, ends := strings.CutSuffix(key, "}"); isLock && ends {
			w.judge.unwanted(key, func() bool { return get(arg) != nil })
		}
	}
}

// dial opens a connection, if anybody listens.
func (p *process) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if p.nobody.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return p.way.Dial(ctx, network, addr)
}

// distance has everything take so much longer than usual.
func (w *world) distance(p *process, more time.Duration) {
	p.way.Delay(faultproxy.Both, p.Away+more)
}

// work has a caller take its turns.
func (w *world) work(ctx context.Context, at int, c Caller) {
	r := rand.New(rand.NewPCG(w.plan.Seed, uint64(1000+c.Name)))
	turns := w.plan.Turns
	if c.Turns > 0 {
		turns = c.Turns
	}
	for turn := range turns {
		time.Sleep(between(r, 1, c.Pause+1))
		if ctx.Err() != nil || w.parts[at].gone.Load() {
			return
		}
		switch wish := c.Wishes[r.IntN(len(c.Wishes))]; wish.Kind {
		case flight:
			w.fly(at, wish, r)
		case noted:
			w.flyOnce(at, wish, turn, r)
		case goesOn:
			w.goOn(at, wish, r)
		default:
			w.call(at, wish, r)
		}
	}
}

// call is one call, with its work.
func (w *world) call(at int, wish Wish, r *rand.Rand) {
	part := w.parts[at]
	w.calls.Add(1)
	if wish.Panics == 0 && wish.GiveUp == 0 {
		w.patient.Add(1)
	}
	w.note(at, wish)
	ctx, cancel := context.WithCancel(context.Background())
	if wish.GiveUp > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), wish.GiveUp)
	}
	defer cancel()
	k := w.judge.begin(at, wish)
	var lease *lockmw.Lease
	var err error
	asked := time.Now()
	panicked := part.acquire(ctx, wish, func(l *lockmw.Lease, e error) { lease, err = l, e })
	took := time.Since(asked)
	if panicked {
		w.judge.leaves(k)
		return // there is no lease, and nothing may be left of it
	}
	if err != nil {
		w.judge.refused(k, err, took)
		return
	}
	w.judge.granted(k, lease, took)
	w.hold(k, lease, r)
}

// hold is the work under a lease, and its release.
func (w *world) hold(k *record, lease *lockmw.Lease, r *rand.Rand) {
	at, wish := k.process, k.wish
	if k.free {
		w.frees.Add(1)
	} else {
		w.holds.Add(1)
		w.turns.Add(int64(len(wish.Keys)))
	}
	switch {
	case !wish.Nested:
	case lease.Shadow():
		w.beneath(at, wish, lease)
	default:
		w.nested(k, lease)
	}
	work := between(r, 0, wish.Work)
	if wish.Trails > 0 && !k.free {
		k.trails = true
		after, slow := between(r, 0, work), between(r, 0, time.Millisecond)
		w.behind.Go(func() { w.trail(k, lease, after, slow) })
	}
	w.worksOn(k, lease, work, r)
	w.judge.worked(k)
	fails := wish.Fails && (wish.Lasts == 0 || r.IntN(3) == 0)
	w.judge.releases(k, fails)
	if fails {
		lease.MarkFailed()
	}
	asked := time.Now()
	err := lease.Release(context.Background())
	took := time.Since(asked)
	w.judge.hasReleased(k, err)
	w.judge.released(k, err, took)
}

// nested acquires a lock once more under its lease.
func (w *world) nested(k *record, lease *lockmw.Lease) {
	again := w.judge.begin(k.process, k.wish)
	defer w.judge.leaves(again)
	_, inner, err := w.parts[k.process].locks.Acquire(lease.Context(), k.wish.Keys[0], k.wish.Policy)
	switch {
	case err == nil:
		if inner.Shadow() {
			w.judge.inShadow(again)
		} else if inner.Fence() != lease.Fence() {
			w.judge.sayf(k, "a nested call has the fence %d, want %d", inner.Fence(), lease.Fence())
		}
		if err := inner.Release(context.Background()); err != nil && lease.Context().Err() == nil {
			w.judge.sayf(k, "a nested release: %v", err)
		}
	case lease.Context().Err() == nil && !errors.Is(err, lockmw.ErrLost):
		w.judge.sayf(k, "a nested call was refused: %v", err)
	}
}

// trail is a nested call that the work under a lease has left behind. Its context takes its time, as one does that looks its values up: the lock may
// be released, and be another's, in the middle of the call.
func (w *world) trail(k *record, lease *lockmw.Lease, after, slow time.Duration) {
	time.Sleep(after)
	ctx := &slowly{Context: lease.Context()}
	ctx.takes.Store(int64(slow))
	p := k.wish.Policy
	p.MinHold = k.wish.Trails
	_, inner, err := w.parts[k.process].locks.Acquire(ctx, k.wish.Keys[0], p)
	ctx.takes.Store(0)
	switch {
	case err == nil:
		if !inner.Shadow() && inner.Fence() != lease.Fence() {
			w.judge.sayf(k, "a nested call that was left behind has the fence %d, want %d", inner.Fence(), lease.Fence())
		}
		_ = inner.Release(context.Background()) // lost, where the lock was given back
	case lease.Context().Err() == nil && !errors.Is(err, lockmw.ErrLost):
		w.judge.sayf(k, "a nested call that was left behind was refused: %v", err)
	}
}

// A slowly is a context that takes its time for each value that it is asked for.
type slowly struct {
	context.Context

	takes atomic.Int64
}

// Value implements context.Context.
func (c *slowly) Value(key any) any {
	if d := c.takes.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	return c.Context.Value(key)
}

// beneath is a call for the same lock within work that is in shadow: it may be one that takes the lock.
func (w *world) beneath(at int, wish Wish, outer *lockmw.Lease) {
	k := w.judge.begin(at, wish)
	defer w.judge.leaves(k)
	_, lease, err := w.parts[at].locks.Acquire(outer.Context(), wish.Keys[0], wish.Policy)
	took := time.Since(k.asked)
	if err != nil {
		if outer.Context().Err() == nil {
			w.judge.refused(k, err, took)
		}
		return
	}
	k.under = outer
	w.judge.granted(k, lease, took)
	w.judge.worked(k)
	began := time.Now()
	w.judge.released(k, lease.Release(context.Background()), time.Since(began))
}

// acquire takes a wish's locks, and tells what came of it, or that the caller's context has panicked.
func (p *process) acquire(ctx context.Context, wish Wish, done func(*lockmw.Lease, error)) (panicked bool) {
	if wish.Panics > 0 {
		taken := &takenBack{Context: ctx}
		timer := time.AfterFunc(wish.Panics, func() { taken.back.Store(true) })
		defer func() {
			timer.Stop()
			taken.back.Store(false) // the lease's context goes on with it
			if v := recover(); v != nil {
				panicked = true
				if v != errTakenBack { //nolint:errorlint // it is the panic's value
					panic(v)
				}
			}
		}()
		ctx = taken
	}
	var lease *lockmw.Lease
	var err error
	if len(wish.Keys) == 1 {
		_, lease, err = p.locks.Acquire(ctx, wish.Keys[0], wish.Policy)
	} else {
		_, lease, err = p.locks.AcquireAll(ctx, wish.Keys, wish.Policy)
	}
	done(lease, err)
	return false
}

// A takenBack is a context that panics when it is asked anything after a framework has taken it back, as Gin's does.
type takenBack struct {
	context.Context

	back atomic.Bool
}

var errTakenBack = errors.New("the context was taken back")

// Value implements context.Context.
func (c *takenBack) Value(key any) any {
	if c.back.Load() {
		panic(errTakenBack)
	}
	return c.Context.Value(key)
}

// sleep sleeps until ctx ends, or for so long.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// note counts what a call meets.
func (w *world) note(at int, wish Wish) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var set []string
	for f, n := range w.on {
		if n == 0 || !f.meets(at) {
			continue
		}
		w.met[cell{Kind: wish.Kind, Way: wish.way(), Fault: f.Kind}]++
		if set == nil {
			set = w.desk.says(w.parts[at].Process, wish)
		}
		for _, what := range set {
			w.met[cell{Kind: wish.Kind, Set: what, Fault: f.Kind}]++
		}
	}
}
