package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/history"
)

// configEnv has a program be a worker.
const configEnv = "PROOF_WORKER"

// Main does nothing unless this process was started by Start. Then it works until
// it is told to end, and exits.
func Main() {
	text := os.Getenv(configEnv)
	if text == "" {
		return
	}
	w := &worker{out: json.NewEncoder(os.Stdout)}
	if err := w.run(text); err != nil {
		w.tell(event{Failed: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

type worker struct {
	Config

	engine engines.Engine
	store  store // nil: none
	ids    atomic.Int64
	all    sync.WaitGroup // turns and jobs
	rash   atomic.Int64   // until this moment (of package clock) acquires are cancelled early
	asking atomic.Int64   // jobs that ask for an answer

	mu  sync.Mutex
	out *json.Encoder
}

// tell writes at once: what a process that is killed had told is not lost.
func (w *worker) tell(e event) {
	w.mu.Lock()
	err := w.out.Encode(e)
	w.mu.Unlock()
	if err != nil {
		os.Exit(1) // nobody listens
	}
}

func (w *worker) run(text string) (err error) {
	if err := json.Unmarshal([]byte(text), &w.Config); err != nil {
		return err
	}
	if w.store, err = openStore(w.Config); err != nil {
		return err
	}
	if w.store != nil {
		defer w.store.Close()
	}
	// A server that does not answer just now is what a worker must live with.
	for {
		w.engine, err = engines.Open(w.Engine, w.Redis, w.TTL, w.options()...)
		if err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	taking, noMore := context.WithCancel(ctx)
	defer noMore()
	for i, key := range w.Keys {
		for j := range key.Goroutines {
			rnd := rand.New(rand.NewPCG(w.Seed, uint64(i)<<32|uint64(j)))
			w.all.Go(func() { w.turns(taking, key, rnd) })
		}
	}
	go w.obey(ctx, stop, noMore)
	w.all.Wait()
	if err := w.engine.Close(); err != nil { // a server that does not answer just now
		w.tell(event{Refused: &Refusal{Key: "close", Err: err.Error()}})
	}
	return nil
}

// obey does what the test's side says, a line each, until it says no more. noMore ends the turns.
func (w *worker) obey(ctx context.Context, stop, noMore context.CancelFunc) {
	defer stop()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		verb, arg, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "job":
			w.all.Go(func() { w.job(ctx, arg) }) // the turns that go on until stop, or finish, keep all from being over
			continue
		case "finish":
			w.all.Go(func() { <-ctx.Done() }) // there may be jobs yet
			noMore()
			continue
		}
		d, err := time.ParseDuration(arg)
		if err != nil {
			w.tell(event{Failed: err.Error()})
			return
		}
		switch verb {
		case "hog":
			for range runtime.NumCPU() + 1 {
				go func() {
					for until := clock.Now() + d; clock.Now() < until; {
					}
				}()
			}
		case "cancel":
			w.rash.Store(int64(clock.Now() + d))
		}
	}
}

// turns takes turns on one key.
func (w *worker) turns(ctx context.Context, key Key, rnd *rand.Rand) {
	for turn := 0; ctx.Err() == nil && (key.Turns == 0 || turn < key.Turns); turn++ {
		pause := upTo(rnd, key.Think)
		if !w.turn(ctx, key, rnd) {
			pause += w.Rest
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// turn takes one turn, and reports whether it had the lock.
func (w *worker) turn(ctx context.Context, key Key, rnd *rand.Rand) bool {
	if key.Asks > 0 {
		w.askAll(key, rnd)
		return true
	}
	name := key.Name
	if w.Epoch > 0 {
		name = fmt.Sprintf("%s@%d", name, clock.Now()/w.Epoch)
	}
	h := history.Hold{Key: name, Kind: key.Kind, Permits: key.Permits, Worker: w.Name}
	h.Shared = key.Kind == history.Readers && rnd.IntN(key.Writers) > 0

	asking := ctx
	if w.isRash() {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, upTo(rnd, 50*time.Millisecond))
		defer cancel()
	}
	h.Asked = clock.Now()
	hold, err := w.engine.Acquire(asking, engines.Ask{Key: name, TTL: w.TTL, Wait: w.Wait, Shared: h.Shared, Permits: key.Permits})
	h.Began = clock.Now()
	if err != nil {
		if ctx.Err() == nil {
			w.tell(event{Refused: &Refusal{Key: name, Asked: h.Asked, Returned: h.Began, Err: err.Error()}})
		}
		return false
	}
	w.hold(ctx, asking, key, rnd, hold, h, key.Hands)
	return true
}

// isRash reports whether callers leave early now.
func (w *worker) isRash() bool { return time.Duration(w.rash.Load()) > clock.Now() }

// TicketTTLs is for how many TTLs a ticket has the lock.
const TicketTTLs = 3

// job does a job that this worker was given. It is done unless the lock was lost.
func (w *worker) job(ctx context.Context, text string) {
	var job Job
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		w.tell(event{Failed: err.Error()})
		return
	}
	i := slices.IndexFunc(w.Keys, func(k Key) bool { return k.Name == job.Of })
	if i >= 0 && w.Keys[i].Asks > 0 {
		w.ask(ctx, w.Keys[i], job)
		return
	}
	engine, ok := w.engine.(engines.HandsOn)
	if i < 0 || !ok {
		w.tell(event{Failed: fmt.Sprintf("no job can be done here: %+v", job)})
		return
	}
	if job.Discard {
		w.discard(ctx, engine, job)
		return
	}
	key, ask := w.Keys[i], engines.Ask{Key: job.Key, TTL: w.TTL, Wait: w.Wait}
	h := history.Hold{Key: job.Key, Kind: key.Kind, Worker: w.Name, Ticket: job.ID, Asked: clock.Now()}
	hold, err := w.resume(ctx, engine, job, ask)
	if errors.Is(err, lockmw.ErrTicketSpent) {
		h.Ticket, h.Asked = "", clock.Now()
		hold, err = w.engine.Acquire(ctx, ask)
	}
	h.Began = clock.Now()
	if err != nil {
		if ctx.Err() == nil {
			w.tell(event{Refused: &Refusal{Key: job.Key, Asked: h.Asked, Returned: h.Began, Err: err.Error()}})
		}
		return
	}
	rnd := rand.New(rand.NewPCG(w.Seed, uint64(h.Began)))
	if w.hold(ctx, ctx, key, rnd, hold, h, job.Hands) != history.Lost {
		w.tell(event{Did: job.ID})
	}
}

// resume goes on by a job's ticket, and tells what came of it.
func (w *worker) resume(ctx context.Context, engine engines.HandsOn, job Job, ask engines.Ask) (hold engines.Hold, err error) {
	w.use(job, func() string {
		hold, err = engine.Resume(ctx, job.Ticket, ask)
		switch {
		case err == nil:
			return history.WentOn
		case errors.Is(err, lockmw.ErrTicketSpent):
			return history.Spent
		case errors.Is(err, lockmw.ErrNotAcquired) && !errors.Is(err, lockmw.ErrUnavailable) && ctx.Err() == nil:
			return history.Early
		}
		return "" // a command that was not answered may have used it
	})
	return hold, err
}

// discard lets the lock of a job go that is not to be done any more.
func (w *worker) discard(ctx context.Context, engine engines.HandsOn, job Job) {
	ctx, cancel := context.WithTimeout(ctx, w.Wait)
	defer cancel()
	w.use(job, func() string {
		if err := engine.Discard(ctx, job.Ticket); err != nil { // it comes again
			return ""
		}
		return history.Discarded
	})
}

// use tells of a call by a job's ticket, which says what came of it: before it, since the process may be killed meanwhile, and when it has returned.
func (w *worker) use(job Job, call func() (came string)) {
	u := history.Use{ID: int(w.ids.Add(1)), Ticket: job.ID, Worker: w.Name, TTL: w.TTL, Asked: clock.Now()}
	w.tell(event{Using: &u})
	u.Came = call()
	u.Returned = clock.Now()
	w.tell(event{Used: &u})
	if u.Came == history.Discarded {
		w.tell(event{Did: job.ID})
	}
}

// hold tells of a hold that has begun, does the work under the lock, which was asked for under a context of its
// own, and tells how it ended, which it returns. Its lock is handed on unless hands is 0.
func (w *worker) hold(ctx, asked context.Context, key Key, rnd *rand.Rand, hold engines.Hold, h history.Hold, hands int) string {
	h = w.under(ctx, asked, key, rnd, hold, h, hands)
	release, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return w.over(h, hold.Release(release) != nil)
}

// under is hold up to the release, which it tells of.
func (w *worker) under(ctx, asked context.Context, key Key, rnd *rand.Rand, hold engines.Hold, h history.Hold, hands int) history.Hold {
	h.ID = int(w.ids.Add(1))
	h.Fence, h.Until = hold.Fence(), until(hold)
	w.tell(event{Began: &h})
	job := w.issue(hold, key, h, hands)
	if job != nil && lockmw.CheckTicket(job.Ticket) == nil { // otherwise the lease had ended
		h.HandsOn, h.Lasts = job.ID, TicketTTLs*w.TTL
	}
	if job != nil && rnd.IntN(2) == 0 { // whoever is given it waits for the lock
		w.tell(event{Queued: job})
		job = nil
	}
	writes := w.store != nil && h.Fence != 0 && key.Kind == history.Mutex
	if writes {
		w.write(hold, h, false)
	}
	h.How = history.Released
	length := key.Least + upTo(rnd, key.Most-key.Least)
	if key.StaysAlive {
		length = 24 * time.Hour
	}
	if key.Watch {
		w.watch(ctx, hold, h)
	}
	often := func() {}
	if writes && w.SQL != "" { // somebody else may have written since, because Redis has forgotten the lock
		often = func() { w.write(hold, h, false) }
	}
	h.Until = w.work(ctx, hold, h, length, often)
	if hold.Context().Err() == nil {
		often()
	}
	if hold.Context().Err() != nil && asked.Err() == nil {
		h.How = history.Lost
	}
	h.Ended = clock.Now()
	if h.How == history.Lost {
		w.tell(event{Done: h.Ended})
	}
	if until := until(hold); until > 0 {
		h.Until = until
		h.Ended = min(h.Ended, until)
	}
	if writes && h.How == history.Lost {
		w.write(hold, h, true)
	}
	if job != nil && h.How == history.Released {
		w.tell(event{Queued: job})
	}
	w.tell(event{Ending: &h})
	return h
}

// over tells of the release of a hold, which may have failed, and returns how the hold has ended.
func (w *worker) over(h history.Hold, unsure bool) string {
	h.Freed = clock.Now()
	if unsure {
		if h.How == history.Released {
			h.How = history.Unsure
		}
		h.Freed = h.Ended + 2*w.TTL + 2*time.Second // Redis must have forgotten it by then
	}
	w.tell(event{Ended: &h})
	return h.How
}

// issue returns a job that has a ticket for the lock; nil if the lock is not to be handed on.
func (w *worker) issue(hold engines.Hold, key Key, h history.Hold, hands int) *Job {
	if hands == 0 {
		return nil
	}
	issuer, ok := hold.(interface {
		Ticket(lasts time.Duration) string
	})
	if !ok {
		w.tell(event{Failed: w.Engine + " issues no tickets"})
		return nil
	}
	return &Job{ID: fmt.Sprintf("%s/%d", w.Name, h.ID), Of: key.Name, Key: h.Key, Ticket: issuer.Ticket(TicketTTLs * w.TTL), Hands: hands - 1}
}

// until is the moment until which a hold says that it is valid; 0: it does not say.
func until(hold engines.Hold) time.Duration {
	until := hold.ValidUntil()
	if until.IsZero() {
		return 0
	}
	return clock.Of(until)
}

// work has the lock for a while, does something often, and tells each renewal, so that it is known of a worker that is killed until when its lease
// was valid. It returns what it told last.
func (w *worker) work(ctx context.Context, hold engines.Hold, h history.Hold, length time.Duration, often func()) time.Duration {
	end := time.After(length)
	look := time.NewTicker(w.TTL / 20)
	defer look.Stop()
	for {
		select {
		case <-hold.Context().Done():
			return h.Until
		case <-ctx.Done():
			return h.Until
		case <-end:
			return h.Until
		case <-look.C:
			often()
			if until := until(hold); until > h.Until {
				h.Until = until
				w.tell(event{Renewed: &h})
			}
		}
	}
}

func (w *worker) write(hold engines.Hold, h history.Hold, late bool) {
	called := clock.Now()
	a, err := w.store.write(hold, h.Key)
	if err != nil {
		w.tell(event{Failed: err.Error()})
		return
	}
	w.tell(event{Write: &history.Write{
		Key: h.Key, Worker: h.Worker, ID: h.ID, Fence: h.Fence, Called: called, Returned: clock.Now(),
		Accepted: a.Accepted, Highest: a.Highest, Place: a.Place, Late: late,
	}})
}

// watch asks whether the lease is valid until it ends, as work would before each
// side effect, and tells the first answer after a gap.
func (w *worker) watch(ctx context.Context, hold engines.Hold, h history.Hold) {
	valid, ok := hold.(interface{ Valid() bool })
	if !ok {
		w.tell(event{Failed: errors.ErrUnsupported.Error()})
		return
	}
	stood := w.TTL / 3 // or longer: the process did not run
	for last := h.Began; ; {
		asked := clock.Now()
		is := valid.Valid()
		answered := clock.Now()
		if asked-last > stood {
			w.tell(event{Woke: &Woke{Key: h.Key, Valid: is, Asked: asked, Before: last}})
		} else if answered-asked > stood { // it may have answered before the process stood still, so the next one is the first behind that
			continue
		}
		if !is || ctx.Err() != nil { // asked once more when ctx has ended: that may have come first
			return
		}
		last = answered
		time.Sleep(time.Millisecond)
	}
}

// upTo draws a time below d.
func upTo(rnd *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rnd.Int64N(int64(d)))
}
