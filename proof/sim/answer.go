package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// This file has the calls of Do, and what must not be of their answers.

// A made is an answer: the number of the work that has made it, among all of the world's, and when that began and ended, since the world's begin.
type made struct {
	Work         int64
	Began, Ended time.Duration
}

// A making is what is known of an answer. The judge's mutex guards it.
type making struct {
	of     *record // whose work has made it
	answer made
	void   bool      // as it was made somebody else had the lock, or nobody: Redis must not take it
	given  time.Time // when that call returned with it; zero: it has not, or Redis may have the answer later
}

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
		return w.judge.makes(k, m), nil
	})
	w.judge.landed(k, answer, shared, ran, err)
}

// makes notes an answer, before anybody can have it, and gives it its number.
func (j *judge) makes(r *record, m made) made {
	void := r.token != "" && j.world.server.holder(r.wish.Keys[0]) != r.token
	j.mu.Lock()
	defer j.mu.Unlock()
	m.Work = int64(len(j.made)) + 1
	j.made = append(j.made, &making{of: r, answer: m, void: void})
	return m
}

// making returns what is known of an answer, or nil of one that nobody has made. The judge's mutex is held.
func (j *judge) making(answer made) *making {
	if i := answer.Work - 1; i >= 0 && i < int64(len(j.made)) && j.made[i].answer == answer {
		return j.made[i]
	}
	return nil
}

// landed judges what came of a call of Do.
func (j *judge) landed(r *record, answer made, shared, ran bool, err error) {
	defer j.leaves(r)
	if ran {
		j.mu.Lock()
		j.moves(r)
		if one := j.making(answer); one != nil && err == nil && !j.world.ill(r.process, r.asked, FaultKind.refuses) { // otherwise Redis may have it later
			one.given = time.Now()
		}
		j.mu.Unlock()
	}
	switch {
	case j.hasWorked(r, shared, ran, err):
		if ran && err == nil {
			j.hasAnswer(r, answer, shared)
		}
	case errors.Is(err, lockmw.ErrOtherRequest):
		if r.wish.Retain == 0 || !j.madeForAnother(r) {
			j.sayf(r, "%v, and nothing is retained that was made for another one", err)
		}
	case err != nil:
		j.refused(r, err, time.Since(r.asked))
	default:
		j.hasAnswer(r, answer, shared)
		j.bound(r, "Do", time.Since(r.asked), j.longest(r)+slack)
	}
}

// hasAnswer judges an answer that a call has: somebody has made it, for the same key and fingerprint, and not too long ago.
func (j *judge) hasAnswer(r *record, answer made, shared bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	one := j.making(answer)
	switch {
	case one == nil:
		j.addLockedf("process %d, %v: nobody has made the answer %+v", r.process, r.wish.Keys, answer)
	case !shared && one.of != r:
		j.addLockedf("process %d, %v: process %d has made the answer that it calls its own: %+v", r.process, r.wish.Keys, one.of.process, answer)
	case one.void && one.of.process != r.process:
		j.addLockedf("process %d, %v: it has the answer of process %d, whose lock had gone before it was made", r.process, r.wish.Keys, one.of.process)
	case one.of.wish.Keys[0] != r.wish.Keys[0]:
		j.addLockedf("process %d, %v: it has the answer to %v", r.process, r.wish.Keys, one.of.wish.Keys)
	case one.of.wish.Print != r.wish.Print:
		j.addLockedf("process %d, %v: it has the answer to the fingerprint %q, and its own is %q", r.process, r.wish.Keys, one.of.wish.Print, r.wish.Print)
	case !one.given.IsZero() && r.asked.After(one.given.Add(one.of.wish.Retain)):
		j.addLockedf("process %d, %v: it asked at %v, and has an answer that was given at %v", r.process, r.wish.Keys, r.asked.Sub(j.world.began), one.given.Sub(j.world.began))
	}
}

// madeForAnother reports whether an answer was made for the call's key and another fingerprint.
func (j *judge) madeForAnother(r *record) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.made, func(one *making) bool {
		return one.of.wish.Keys[0] == r.wish.Keys[0] && one.of.wish.Print != r.wish.Print
	})
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

// flies reports whether somebody in the process calls Do for answers.
func (p Process) flies() bool {
	return slices.ContainsFunc(p.Callers, func(c Caller) bool { return c.Wishes[0].Kind == flight })
}

// takeFromFlights adds faults to every second plan with such calls: their locks are taken from them, so that others do the same work beside it.
func (p *Plan) takeFromFlights(r *rand.Rand) {
	if r.IntN(2) == 0 || !slices.ContainsFunc(p.Processes, Process.flies) {
		return
	}
	for range 1 + r.IntN(6) {
		f := Fault{Key: []string{"a0", "a1", "a1"}[r.IntN(3)], Kind: []FaultKind{Deleted, Forced}[r.IntN(2)], At: between(r, 0, lasts)}
		f.Process = r.IntN(len(p.Processes))
		p.Faults = append(p.Faults, f)
	}
}
