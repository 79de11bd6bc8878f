package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// This file has the calls of Do whose work is noted as begun (Uncertain), the operator who says what became of it, and what must not be.

// A receipt is the answer of work that is noted: its id, and when it ended.
type receipt struct {
	ID    int64
	Ended time.Duration
}

// What work returns that does not know itself what it has done: it says so, or a request of it was not answered in time.
var (
	errUnsure = fmt.Errorf("the bank has not answered: %w", lockmw.ErrUncertain)
	errLate   = fmt.Errorf("the bank has not answered in time: %w", context.DeadlineExceeded)
)

// A noting is what is known of the work of one key. The judge's mutex guards it.
type noting struct {
	asked  time.Time       // when a call was made for it first
	runs   int             // how often it has begun
	more   int             // how often it may have begun after the first time: it has failed, or somebody has said that it is to be done again
	again  bool            // somebody has said so, or may have
	unsure bool            // some of it has said that it does not know, or has lost its lock
	begun  map[int64]*ran  // by the work's id
	prints map[string]bool // the fingerprints of the calls
	told   *receipt        // the answer that calls have
	id     string          // of the work of which calls were told last that it is uncertain
}

// A ran is work that has begun.
type ran struct {
	of     *record
	inside bool // it goes on
	knows  bool // its process knows what became of it, and had the lock
	answer *receipt
}

// flies reports whether the wish is one for Do.
func (w Wish) flies() bool { return w.Kind == flight || w.Kind == noted }

// needsLock reports whether settings put no such call in shadow, nor off.
func (w Wish) needsLock() bool { return w.flies() || w.Kind == goesOn }

// flyOnce is one call of Do in its caller's turn, about a key of these turns.
func (w *world) flyOnce(at int, wish Wish, turn int, r *rand.Rand) {
	wish.Keys = []string{onceKey + strconv.Itoa(max(0, turn-r.IntN(3)))}
	w.calls.Add(1)
	w.note(at, wish)
	ctx, cancel := context.WithCancel(context.Background())
	if wish.GiveUp > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), wish.GiveUp)
	}
	defer cancel()
	k := w.judge.begin(at, wish)
	n := w.judge.noting(k)
	work, fails, says, stubborn := between(r, 0, wish.Work), wish.Fails && r.IntN(3) == 0, r.IntN(3), r.IntN(2) == 0
	f := lockmw.Flight{Policy: wish.Policy, Retain: time.Hour, Crash: lockmw.Uncertain, Fingerprint: []byte(wish.Print)}
	began := false
	answer, shared, err := lockmw.Do(ctx, w.parts[at].locks, wish.Keys[0], f, func(ctx context.Context) (receipt, error) {
		lease, _ := lockmw.FromContext(ctx)
		began = true
		w.holds.Add(1)
		w.turns.Add(1)
		w.judge.granted(k, lease, time.Since(k.asked))
		one := w.judge.works(k, n, lease.Fence())
		if stubborn { // it does not heed its context
			time.Sleep(work)
		} else {
			sleep(ctx, work)
		}
		w.judge.worked(k)
		var err error
		switch {
		case ctx.Err() != nil && !stubborn:
			err = context.Cause(ctx)
		case fails && says == 0:
			err = errUnsure
		case fails && says == 1:
			err = errLate
		case fails:
			err = errFailed
		}
		m := receipt{lease.Fence(), time.Since(w.began)}
		w.judge.stops(n, one, m, err, context.Cause(ctx))
		if err != nil {
			context.AfterFunc(ctx, func() { w.judge.stopped(n, one, context.Cause(ctx)) })
		}
		return m, err
	})
	w.judge.landedOnce(k, n, answer, shared, began, err)
}

// noting returns what is known of the work of a call's key.
func (j *judge) noting(r *record) *noting {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := r.wish.Keys[0]
	n := j.once[key]
	if n == nil {
		n = &noting{asked: r.asked, begun: make(map[int64]*ran), prints: make(map[string]bool)}
		j.once[key] = n
	}
	n.prints[r.wish.Print] = true
	return n
}

// kept reports whether Redis has kept its word about what was noted. The judge's mutex is held.
func (n *noting) kept(j *judge) bool {
	at := j.forgot[""]
	return at.IsZero() || at.Before(n.asked)
}

// goesOn reports whether some of the work has begun and has not ended. The judge's mutex is held.
func (n *noting) goesOn() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(n.begun)), func(one *ran) bool { return one.inside })
}

// works notes that work begins.
func (j *judge) works(r *record, n *noting, id int64) *ran {
	j.mu.Lock()
	defer j.mu.Unlock()
	n.runs++
	if most := 1 + n.more; n.runs > most && n.kept(j) {
		j.addLockedf("the work of %v begins for the time %d, in process %d, want %d at most", r.wish.Keys, n.runs, r.process, most)
	}
	for _, other := range n.begun {
		if other.inside && !n.again && n.kept(j) {
			j.addLockedf("the work of %v begins in process %d, and goes on in process %d", r.wish.Keys, r.process, other.of.process)
		}
	}
	one := &ran{of: r, inside: true}
	n.begun[id] = one
	return one
}

// stops notes what became of work.
func (j *judge) stops(n *noting, one *ran, m receipt, err, cause error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	one.inside = false
	lost, capped := errors.Is(cause, lockmw.ErrLost), errors.Is(cause, lockmw.ErrMaxHold) // its TTL may be over, too, by the release
	stopped := err != nil && cause != nil                                                 // since all callers have left
	one.knows = !lost && !capped && !stopped && !errors.Is(err, lockmw.ErrUncertain) && !errors.Is(err, context.DeadlineExceeded)
	n.unsure = n.unsure || !one.knows
	switch {
	case err == nil:
		one.answer = &m
	case one.knows || capped:
		n.more++
	}
}

// stopped notes that the context of work that has failed ended behind it, before the lock was given back: all callers have left, or the lock was lost.
func (j *judge) stopped(n *noting, one *ran, cause error) {
	if errors.Is(cause, lockmw.ErrReleased) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	one.knows, n.unsure = false, true
}

// landedOnce judges what came of a call.
func (j *judge) landedOnce(r *record, n *noting, answer receipt, shared, began bool, err error) {
	defer j.leaves(r)
	if began {
		j.mu.Lock()
		j.moves(r)
		j.mu.Unlock()
	}
	of, isOf := errors.AsType[*lockmw.UncertainError](err)
	switch {
	case began && (errors.Is(err, lockmw.ErrUncertain) || errors.Is(err, errLate)) && !isOf && !shared && !errors.Is(err, lockmw.ErrLost):
	case j.hasWorked(r, shared, began, err):
		if began && err == nil {
			j.tells(r, n, answer)
		}
	case isOf:
		j.isUncertain(r, n, of)
	case errors.Is(err, lockmw.ErrOtherRequest):
		j.mu.Lock()
		others := len(n.prints) > 1
		j.mu.Unlock()
		if !others {
			j.sayf(r, "%v, and all have asked for the same", err)
		}
	case err != nil:
		j.refused(r, err, time.Since(r.asked))
	default:
		j.tells(r, n, answer)
		j.bound(r, "Do", time.Since(r.asked), j.longest(r)+slack)
	}
}

// isUncertain notes that a call is told that nobody knows more of some work.
func (j *judge) isUncertain(r *record, n *noting, of *lockmw.UncertainError) {
	j.mu.Lock()
	n.id = of.ID
	right := n.unsure || !n.kept(j) || j.forced[r.wish.Keys[0]] || j.jumpedSince(n.asked)
	j.mu.Unlock()
	for i, part := range j.world.parts {
		right = right || part.Away > farForTTL || part.gone.Load() || j.world.ill(i, n.asked.Add(-onItsWay), FaultKind.onTheWay)
	}
	if !right {
		j.sayf(r, "nothing was wrong: %v", of)
	}
}

// tells judges an answer that a call has. What a process gives its own callers while its way to Redis is ill, Redis may not have.
func (j *judge) tells(r *record, n *noting, answer receipt) {
	ill := j.world.ill(r.process, r.asked.Add(-onItsWay), FaultKind.refuses) || j.tooFar(r)
	j.mu.Lock()
	defer j.mu.Unlock()
	one := n.begun[answer.ID]
	switch {
	case one == nil || one.answer == nil || *one.answer != answer:
		j.addLockedf("process %d, %v: nobody has made the answer %+v", r.process, r.wish.Keys, answer)
	case one.of.wish.Print != r.wish.Print:
		j.addLockedf("process %d, %v: it has the answer to the fingerprint %q, and its own is %q", r.process, r.wish.Keys, one.of.wish.Print, r.wish.Print)
	case ill || !n.kept(j):
	case n.told == nil:
		n.told = &answer
	case *n.told != answer:
		j.addLockedf("process %d, %v: it has the answer %+v, and another was told before: %+v", r.process, r.wish.Keys, answer, *n.told)
	}
}

// known judges the intents that are left when all have closed: each is of work that has begun, and of which its process knows no more, unless that
// was cut off.
func (w *world) known(left []string) {
	for _, part := range w.parts {
		if part.gone.Load() {
			return
		}
	}
	for _, name := range left {
		key, isAnswer := strings.CutSuffix(strings.TrimPrefix(name, "lock:{"), "}:answer")
		value, _ := w.plain.Get(context.Background(), name).Result()
		words := strings.Fields(value)
		w.judge.mu.Lock()
		n := w.judge.once[key]
		w.judge.mu.Unlock()
		if !isAnswer || n == nil || len(words) == 0 || words[0] != "begun" {
			continue
		}
		id, _ := strconv.ParseInt(words[1], 10, 64)
		w.judge.isLeft(key, n, id)
	}
}

func (j *judge) isLeft(key string, n *noting, id int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	one := n.begun[id]
	switch {
	case !n.kept(j):
	case one == nil:
		j.addLockedf("work %d of %s is noted at the end, and never began", id, key)
	case one.knows && !j.world.ill(one.of.process, one.of.had, FaultKind.refuses) && !j.tooFar(one.of) && !j.forced[key] && !j.jumpedSince(one.of.asked):
		j.addLockedf("work %d of %s is noted at the end, and process %d knows what became of it", id, key, one.of.process)
	}
}

// operate says now and then of uncertain work that it is to be done again, and releases locks by force in the middle of work.
func (w *world) operate(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.plan.Seed, 2))
	for {
		sleep(ctx, between(r, 5*time.Millisecond, 400*time.Millisecond))
		if ctx.Err() != nil {
			return
		}
		at := r.IntN(len(w.parts))
		if w.parts[at].gone.Load() {
			continue
		}
		if r.IntN(3) == 0 {
			w.force(at, r)
		} else {
			w.resolve(at, r)
		}
	}
}

// force takes the lock of a key from work that goes on.
func (w *world) force(at int, r *rand.Rand) {
	key, _ := w.judge.pick(r, (*noting).goesOn)
	if key == "" {
		return
	}
	w.judge.mu.Lock()
	w.judge.forced[key] = true
	w.judge.mu.Unlock()
	if r.IntN(3) == 0 {
		w.plain.Del(context.Background(), "lock:{"+key+"}")
	} else {
		_ = w.parts[at].locks.ForceRelease(context.Background(), key)
	}
}

// pick picks a key of which the work is of some kind; "" where there is none.
func (j *judge) pick(r *rand.Rand, is func(*noting) bool) (key string, n *noting) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []string
	for key, n := range j.once {
		if is(n) {
			all = append(all, key)
		}
	}
	if all == nil {
		return "", nil
	}
	slices.Sort(all)
	key = all[r.IntN(len(all))]
	return key, j.once[key]
}

// resolve says of work that calls were told is uncertain that it is to be done again.
func (w *world) resolve(at int, r *rand.Rand) {
	j := w.judge
	key, n := j.pick(r, func(n *noting) bool { return n.id != "" && n.goesOn() }) // its owner has lost the lock, and may complete it
	if key == "" {
		key, n = j.pick(r, func(n *noting) bool { return n.id != "" })
	}
	if key == "" {
		return
	}
	k := j.begin(at, Wish{Kind: noted, Keys: []string{key}})
	defer j.leaves(k)
	j.mu.Lock()
	id, other, was := n.id, r.IntN(6) == 0, n.again
	if other {
		id += "0"
	} else {
		n.more, n.again = n.more+1, true
	}
	j.mu.Unlock()
	err := w.parts[at].locks.Resolve(context.Background(), key, id, lockmw.Again)
	j.bound(k, "Resolve", time.Since(k.asked), slack)
	ill := j.excused(k, k.asked, FaultKind.refuses) || j.farAway(k)
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case other && err == nil:
		j.addLockedf("%s: work %s was resolved, and there is none", key, id)
	case err == nil:
		n.id = ""
	case errors.Is(err, lockmw.ErrNotUncertain), errors.Is(err, lockmw.ErrNotAcquired):
		if !other && !ill { // otherwise it may have been carried out, and its reply lost
			n.more, n.again = n.more-1, was
		}
		if errors.Is(err, lockmw.ErrNotUncertain) && !other {
			n.id = ""
		}
	case !errors.Is(err, lockmw.ErrUnavailable), !ill:
		j.addLockedf("%s: Resolve of work %s: %v", key, id, err)
	}
}

const (
	// onceKey stands in front of the keys of work that is noted.
	onceKey = "u"
	// farForTTL is how far away a process may be, each way, without losing locks of the shortest TTL.
	farForTTL = 25 * time.Millisecond
)

// flyOnce adds callers to the plan who want work to be done once. Each of their turns is about a key that the others have in the same turn, or had in
// the one before.
func (p *Plan) flyOnce(r *rand.Rand, name int) {
	for i := range 3 + r.IntN(6) {
		w := Wish{Kind: noted, Keys: []string{onceKey}, Fails: r.IntN(3) == 0}
		w.Work = between(r, 0, []time.Duration{3 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second}[r.IntN(3)])
		w.Policy.TTL = []time.Duration{700 * time.Millisecond, 3 * time.Second, 0}[r.IntN(3)]
		switch r.IntN(5) {
		case 0:
		case 1:
			w.Policy.Retries, w.Policy.RetryInterval = 1+r.IntN(5), between(r, 5*time.Millisecond, 200*time.Millisecond)
		default:
			w.Policy.Wait = between(r, 10*time.Millisecond, 6*time.Second)
		}
		if r.IntN(8) == 0 {
			w.Print = "other"
		}
		if r.IntN(4) == 0 {
			w.GiveUp = between(r, time.Millisecond, 2*time.Second)
		}
		at := &p.Processes[r.IntN(len(p.Processes))]
		at.Callers = append(at.Callers, Caller{Name: name + i, Pause: between(r, 0, 200*time.Millisecond), Wishes: []Wish{w}})
	}
	p.Operator = r.IntN(3) > 0
	if len(p.Processes) > 1 && r.IntN(4) == 0 {
		f := newFault(r, *p, faultKinds)
		f.Kind = Gone
		p.Faults = append(p.Faults, f)
	}
}
