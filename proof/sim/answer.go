package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// This file has the calls of Do, and what must not be of their answers.

// A made is an answer: when the work for it began and ended, in nanoseconds since the world's begin.
type made struct{ Began, Ended time.Duration }

// errFailed is what work returns that fails.
var errFailed = errors.New("the work failed")

// fly is one call of Do, with its work if it has to do it.
func (w *world) fly(at int, wish Wish, r *rand.Rand) {
	w.calls.Add(1)
	w.note(at, wish)
	ctx, cancel := context.WithCancel(context.Background())
	if wish.GiveUp > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), wish.GiveUp)
	}
	defer cancel()
	k := w.judge.begin(at, wish)
	work, fails, ran := between(r, 0, wish.Work), wish.Fails && r.IntN(3) == 0, false
	f := lockmw.Flight{Policy: wish.Policy, Retain: wish.Retain, Fingerprint: []byte(wish.Print)}
	answer, shared, err := lockmw.Do(ctx, w.parts[at].locks, wish.Keys[0], f, func(ctx context.Context) (m made, err error) {
		lease, _ := lockmw.FromContext(ctx)
		ran = true
		w.holds.Add(1)
		w.turns.Add(1)
		w.judge.granted(k, lease, time.Since(k.asked))
		m.Began = time.Since(w.began)
		sleep(ctx, work)
		w.judge.worked(k)
		m.Ended = time.Since(w.began)
		switch {
		case ctx.Err() != nil:
			return m, context.Cause(ctx)
		case fails:
			return m, errFailed
		}
		return m, nil
	})
	w.judge.landed(k, answer, shared, ran, err)
}

// landed judges what came of a call of Do.
func (j *judge) landed(r *record, answer made, shared, ran bool, err error) {
	defer j.leaves(r)
	if ran {
		j.mu.Lock()
		j.moves(r)
		if err == nil && !j.world.ill(r.process, r.asked, FaultKind.refuses) { // otherwise Redis may have it later
			j.given[answer] = time.Now()
		}
		j.mu.Unlock()
	}
	switch {
	case j.hasWorked(r, shared, ran, err):
	case errors.Is(err, lockmw.ErrOtherRequest):
		if r.wish.Retain == 0 {
			j.sayf(r, "%v, and nothing is retained", err)
		}
	case err != nil:
		j.refused(r, err, time.Since(r.asked))
	default:
		j.mu.Lock()
		given, known := j.given[answer]
		j.mu.Unlock()
		if known && r.asked.After(given.Add(r.wish.Retain)) {
			j.sayf(r, "it asked at %v, and has an answer that was given at %v", r.asked.Sub(j.world.began), given.Sub(j.world.began))
		}
		j.bound(r, "Do", time.Since(r.asked), j.longest(r)+slack)
	}
}

// hasWorked judges what a call says of who has done the work. It reports false for a call that has not done it, and has an answer or is refused.
func (j *judge) hasWorked(r *record, shared, ran bool, err error) bool {
	switch {
	case ran && shared:
		j.sayf(r, "it has done the work, and its answer is called another's")
	case ran && errors.Is(err, lockmw.ErrLost):
		capped := r.mayBeCapped() && errors.Is(context.Cause(r.lease.Context()), lockmw.ErrMaxHold) // and its work has gone on for longer than its TTL
		if !capped && !j.excused(r, r.had, FaultKind.refuses) && !j.tooFar(r) {
			j.sayf(r, "it was lost, and nothing was wrong with Redis: %v", err)
		}
	case ran && errors.Is(err, lockmw.ErrMaxHold) && r.mayBeCapped(): // as its work was told
	case ran && (err == nil || errors.Is(err, errFailed) || r.wish.GiveUp > 0 && (errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "nobody waits"))):
	case ran:
		j.sayf(r, "its work ended with %v", err)
	case errors.Is(err, errFailed):
		j.sayf(r, "it has the error of another one's work")
	case err == nil && !shared:
		j.sayf(r, "it has not done the work, and its answer is called its own")
	default:
		return false
	}
	return true
}

// fly adds callers to the plan who want answers: on one key those that are made while they wait, on another one also those of a while ago. One
// more only wants the lock.
func (p *Plan) fly(r *rand.Rand, name int) {
	retain := between(r, time.Millisecond, 2*time.Second)
	for i := range 2 + r.IntN(6) {
		w := Wish{Kind: flight, Keys: []string{"a0"}, Work: between(r, 0, 300*time.Millisecond), Fails: r.IntN(3) == 0}
		w.Policy.TTL = []time.Duration{700 * time.Millisecond, 3 * time.Second, 0}[r.IntN(3)]
		switch r.IntN(5) {
		case 0:
		case 1:
			w.Policy.Retries, w.Policy.RetryInterval = 1+r.IntN(5), between(r, 5*time.Millisecond, 200*time.Millisecond)
		default:
			w.Policy.Wait = between(r, 10*time.Millisecond, 6*time.Second)
		}
		if r.IntN(2) == 0 {
			w.Keys, w.Retain, w.Print = []string{"a1"}, retain, []string{"", "", "", "other"}[r.IntN(4)]
		}
		if r.IntN(3) == 0 {
			w.GiveUp = between(r, time.Millisecond, 2*time.Second)
		}
		at := &p.Processes[r.IntN(len(p.Processes))]
		at.Callers = append(at.Callers, Caller{Name: name + i, Pause: between(r, 0, 200*time.Millisecond), Wishes: []Wish{w}})
	}
	w := Wish{Kind: mutex, Keys: []string{"a0"}, Work: 50 * time.Millisecond, Policy: lockmw.Policy{Wait: 3 * time.Second}}
	at := &p.Processes[r.IntN(len(p.Processes))]
	at.Callers = append(at.Callers, Caller{Name: name + 10, Pause: between(r, 0, time.Second), Wishes: []Wish{w}})
}
