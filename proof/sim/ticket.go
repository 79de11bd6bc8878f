package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// This file has the calls whose work issues a ticket, and those that go on by it. handon.go has what must not be of that.

// A job is what work has queued under its lock: a ticket, and what became of it. The judge's mutex guards it.
type job struct {
	key    string
	ticket string
	from   *record       // whose lease has issued it
	fence  int64         // that one's
	lasts  time.Duration // that was said last
	none   bool          // the text is no ticket
	void   bool          // the work has failed
	began  time.Time     // when the release was called
	ended  time.Time     // when it returned
	err    error         // with that
	sure   bool          // nothing was wrong for the issuer, so that nil says that the lock was handed on
	longer time.Duration // for how long it has the lock at most
	taken  bool          // by somebody who goes on, or wanted to
	asking int           // calls of Resume and Discard that have not returned
	doubt  bool          // one has returned that may have had the lock, and given it back
	got    *record       // who goes on
	gone   time.Time     // when a Discard returned nil
}

// issue has a lease issue a ticket, which is queued at once.
func (w *world) issue(k *record, lease *lockmw.Lease, r *rand.Rand) {
	lasts := between(r, 100*time.Millisecond, k.wish.Lasts)
	b := &job{key: k.wish.Keys[0], from: k, fence: lease.Fence(), lasts: lasts, ticket: lease.Ticket(lasts)}
	w.judge.issued(b, lease)
}

// worksOn is the work under a lease.
func (w *world) worksOn(k *record, lease *lockmw.Lease, work time.Duration, r *rand.Rand) {
	ctx := lease.Context()
	if k.wish.Lasts == 0 {
		sleep(ctx, work)
		return
	}
	before := between(r, 0, work)
	sleep(ctx, before)
	w.issue(k, lease, r)
	if r.IntN(4) == 0 { // once more: it is the same, but for its time
		w.issue(k, lease, r)
	}
	sleep(ctx, work-before)
}

// goOn is a turn of a caller who goes on with jobs.
func (w *world) goOn(at int, wish Wish, r *rand.Rand) {
	b := w.judge.job(wish.Keys[0], r)
	late := r.IntN(4) == 0
	switch {
	case b == nil && r.IntN(3) == 0:
		w.without(at, wish, r)
		return
	case b == nil:
		return
	case late:
		time.Sleep(between(r, 0, 2*b.lasts))
	}
	if r.IntN(8) == 0 {
		w.discard(at, wish, b, between(r, 20*time.Millisecond, 3*time.Second))
		return
	}
	w.resume(at, wish, b, r)
}

// without is a call for a lock, by one who goes on with a job and has no ticket.
func (w *world) without(at int, wish Wish, r *rand.Rand) {
	wish.Kind = mutex
	if wish.Policy.Wait == 0 {
		wish.Policy.Wait, wish.Policy.Retries = between(r, 10*time.Millisecond, 3*time.Second), 0
	}
	w.call(at, wish, r)
}

// resume goes on with a job, by its ticket, or where that is spent by the lock itself.
func (w *world) resume(at int, wish Wish, b *job, r *rand.Rand) {
	w.calls.Add(1)
	w.note(at, wish)
	ctx, cancel := context.WithCancel(context.Background())
	if wish.GiveUp > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), wish.GiveUp)
	}
	defer cancel()
	k := w.judge.begin(at, wish)
	w.judge.asksBy(b)
	_, lease, err := w.parts[at].locks.Resume(ctx, b.ticket, wish.Policy)
	took := time.Since(k.asked)
	if err != nil {
		w.judge.notResumed(k, b, err, took)
		if errors.Is(err, lockmw.ErrTicketSpent) && r.IntN(2) == 0 {
			w.without(at, wish, r)
		}
		return
	}
	w.judge.resumed(k, b, lease)
	w.judge.granted(k, lease, took)
	w.hold(k, lease, r)
}

// discard lets the lock of a job go that nobody is to do.
func (w *world) discard(at int, wish Wish, b *job, giveUp time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	w.calls.Add(1)
	w.note(at, wish)
	k := w.judge.begin(at, Wish{Kind: goesOn, Keys: wish.Keys, GiveUp: giveUp})
	w.judge.asksBy(b)
	err := w.parts[at].locks.Discard(ctx, b.ticket)
	w.judge.discarded(k, b, err, time.Since(k.asked))
}

// job picks a job about a key; nil: there is none. Most are done once; some are old, or another one's, as where a queue delivers twice.
func (j *judge) job(key string, r *rand.Rand) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := j.jobs[key]
	if len(all) == 0 {
		return nil
	}
	if r.IntN(6) == 0 {
		return all[len(all)-1-r.IntN(min(4, len(all)))]
	}
	i := slices.IndexFunc(all[max(0, len(all)-6):], func(b *job) bool { return !b.taken })
	if i < 0 {
		return nil
	}
	b := all[max(0, len(all)-6)+i]
	b.taken = true
	return b
}

// handOnKeys are the locks of work that goes on elsewhere; the last one is others' as well.
var handOnKeys = []string{"h0", "h1", "m0"}

// handsOnSeeds: two of so many seeds have tickets.
const handsOnSeeds = 7

// handOn adds callers to the plan whose work issues tickets, others who go on by them, and some who want the same locks.
func (p *Plan) handOn(name int) {
	if n := p.Seed % handsOnSeeds; n != 3 && n != 6 {
		return
	}
	r := rand.New(rand.NewPCG(p.Seed, 4))
	keys := handOnKeys[:1+r.IntN(2)]
	if r.IntN(3) == 0 {
		keys = handOnKeys[2:]
	}
	add := func(w Wish) {
		at := &p.Processes[r.IntN(len(p.Processes))]
		pause := between(r, 0, []time.Duration{3 * time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond}[r.IntN(3)])
		at.Callers = append(at.Callers, Caller{Name: name, Pause: pause, Wishes: []Wish{w}})
		name++
	}
	for range 1 + r.IntN(3) {
		w := newHandOn(r, handsOn, keys)
		w.Policy.FailOpen = r.IntN(4) == 0
		if r.IntN(8) == 0 {
			w.Policy.Reentrant, w.Nested = true, true
		}
		add(w)
	}
	for range 2 + r.IntN(4) {
		w := newHandOn(r, goesOn, keys)
		if r.IntN(3) > 0 {
			w.Lasts = 0
		}
		add(w)
	}
	for range r.IntN(3) {
		w := newHandOn(r, mutex, keys)
		w.Policy.Wait, w.Policy.Retries, w.Lasts = between(r, time.Second, 6*time.Second), 0, 0
		add(w)
	}
	for range r.IntN(5) {
		f := newFault(r, *p, faultKinds)
		f.Key = keys[r.IntN(len(keys))]
		p.Faults = append(p.Faults, f)
	}
}

func newHandOn(r *rand.Rand, kind WishKind, keys []string) Wish {
	w := Wish{Kind: kind, Keys: []string{keys[r.IntN(len(keys))]}, Fails: kind == handsOn && r.IntN(3) == 0}
	w.Work = between(r, 0, []time.Duration{3 * time.Millisecond, 100 * time.Millisecond, time.Second}[r.IntN(3)])
	w.Lasts = between(r, 200*time.Millisecond, []time.Duration{400 * time.Millisecond, 2 * time.Second, 6 * time.Second}[r.IntN(3)])
	w.Policy.TTL = []time.Duration{700 * time.Millisecond, 3 * time.Second, 0}[r.IntN(3)]
	switch r.IntN(4) {
	case 0:
	case 1:
		w.Policy.Retries, w.Policy.RetryInterval = 1+r.IntN(5), between(r, 5*time.Millisecond, 200*time.Millisecond)
	default:
		w.Policy.Wait = between(r, 10*time.Millisecond, 4*time.Second)
	}
	w.Policy.AsyncRelease = (w.Policy.Wait > 0 || w.Policy.Retries > 0) && r.IntN(10) == 0
	if r.IntN(8) == 0 {
		w.Policy.MaxHold = between(r, 5*time.Millisecond, 300*time.Millisecond)
	}
	if r.IntN(4) == 0 {
		w.GiveUp = between(r, time.Millisecond, 2*time.Second)
	}
	return w
}
