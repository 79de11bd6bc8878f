package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// A judge knows who holds what, and says what must not be.
type judge struct {
	world *world

	mu     sync.Mutex
	wrong  []string
	active []*record
	fences map[string]int64     // by key: the highest of those who held it alone
	forgot map[string]time.Time // by key: when Redis was last made to forget it; "": all; ofTheClock: what had little of its TTL left
	skew   time.Duration        // how far the server's clock is ahead
	stays  map[string]time.Time // by key: until when MinHold keeps it taken at least
	moved  map[string]time.Time // by key: when one last had it, ended its work, or had released it
	serves map[int]bool         // by process: it has had a lock
	made   []*making            // the answers of Do, by the numbers of their works, from 1
	once   map[string]*noting   // by key: work that is noted as begun
	forced map[string]bool      // by key: an operator, or another program, has taken its lock in the middle of work that is noted
	asks   map[string]int       // by key: calls for several that have not returned; they may have that one already
	wants  map[string]*wanted   // by key: the calls that may take its lock
	has    map[string]*record   // by token: the call that had its lock last
	jobs   map[string][]*job    // by key: what was queued under its lock, with a ticket
	lines  map[string][]*record // by key: the calls that stand in a line for it
}

// A wanted is what is known of the calls that may take a lock.
type wanted struct {
	calls int       // that have begun
	now   int       // that have not ended
	last  time.Time // when one last did something
}

// A record is one call.
type record struct {
	process int
	wish    Wish
	asked   time.Time
	had     time.Time
	until   time.Time // ValidUntil, as it was told last
	lease   *lockmw.Lease
	may     []effect      // by the policies of that moment; of one that has a lease, by those that explain it
	free    bool          // its lease is one in shadow, or of one that is off: it protects nobody
	under   *lockmw.Lease // in shadow: the call is made in that one's work
	nobody  time.Duration // for how long nobody else had wanted its one key when it began; 0: somebody did
	nth     int           // of the calls for that key
	trails  bool          // its work has left a nested call behind, which wants the key to stay taken
	token   string        // that has its lock in Redis; "": it is not known, or it is for several
}

const (
	mostWrong = 20

	// slack is what a call may take longer than its policy says: a second until a question without an answer is given up, and some time for
	// the next one.
	slack = 1500 * time.Millisecond
	// idleMost is for how long a lock may be free while somebody waits for it.
	idleMost = 2 * time.Second
)

func newJudge(w *world) *judge {
	return &judge{
		world: w, fences: make(map[string]int64), forgot: make(map[string]time.Time), stays: make(map[string]time.Time),
		moved: make(map[string]time.Time), serves: make(map[int]bool), once: make(map[string]*noting), forced: make(map[string]bool), asks: make(map[string]int),
		wants: make(map[string]*wanted), has: make(map[string]*record), jobs: make(map[string][]*job),
		lines: make(map[string][]*record),
	}
}

// addf notes what is wrong.
func (j *judge) addf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.addLockedf(format, args...)
}

func (j *judge) addLockedf(format string, args ...any) {
	if len(j.wrong) < mostWrong {
		j.wrong = append(j.wrong, fmt.Sprintf("%v: ", time.Since(j.world.began))+fmt.Sprintf(format, args...))
	}
}

// sayf notes what is wrong with a call.
func (j *judge) sayf(r *record, format string, args ...any) {
	j.addf("process %d, %s %v: "+format, append([]any{r.process, r.wish.Kind, r.wish.Keys}, args...)...)
}

// begin notes that a call begins.
func (j *judge) begin(at int, wish Wish) *record {
	r := &record{process: at, wish: wish, asked: time.Now()}
	j.asksFor(r, 1)
	j.mu.Lock()
	defer j.mu.Unlock()
	r.may = j.world.effects(at, wish)
	if !slices.ContainsFunc(r.may, effect.locks) {
		return r
	}
	j.linesUp(r)
	for _, key := range wish.Keys {
		of := j.wants[key]
		if of == nil {
			of = &wanted{last: j.world.began}
			j.wants[key] = of
		}
		if of.now == 0 && len(wish.Keys) == 1 {
			r.nobody = max(0, time.Since(later(of.last, j.handedOn(key))))
		}
		of.calls, of.now, of.last = of.calls+1, of.now+1, time.Now()
		r.nth = of.calls
	}
	return r
}

// leaves notes that a call that may take locks is over.
func (j *judge) leaves(r *record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.nth == 0 {
		return
	}
	j.goesOut(r)
	r.nth = 0
	for _, key := range r.wish.Keys {
		of := j.wants[key]
		of.now, of.last = of.now-1, time.Now()
	}
}

// inShadow judges that a call was in shadow.
func (j *judge) inShadow(r *record) {
	if !slices.ContainsFunc(r.may, func(e effect) bool { return e.shadow && !e.off }) {
		j.sayf(r, "it ran in shadow, and no policy of that moment says so")
	}
}

// asksFor notes that a call for several keys begins, or returns.
func (j *judge) asksFor(r *record, n int) {
	if len(r.wish.Keys) == 1 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range r.wish.Keys {
		j.asks[key] += n
	}
	j.moves(r)
}

// refused judges a call that got no lease.
func (j *judge) refused(r *record, err error, took time.Duration) {
	j.asksFor(r, -1)
	defer j.leaves(r)
	j.bound(r, "Acquire", took, j.longest(r))
	if !slices.ContainsFunc(r.may, effect.locks) {
		j.sayf(r, "no policy of that moment takes the lock, and it was refused: %v", err)
	}
	switch {
	case errors.Is(err, lockmw.ErrUnavailable):
		capped := r.wish.flies() && errors.Is(err, lockmw.ErrMaxHold) && r.mayBeCapped() // before it knew whether there is an answer
		if !j.excused(r, r.asked, FaultKind.refuses) && !j.farAway(r) && !capped {
			j.sayf(r, "nothing was wrong with Redis: %v", err)
		}
	case errors.Is(err, lockmw.ErrNotAcquired):
		if prompt := j.atOnce(r) + 200*time.Millisecond + 10*j.world.parts[r.process].Away; !j.excused(r, r.asked, FaultKind.onTheWay) && !j.farAway(r) {
			j.bound(r, "a refusal by Redis", took, j.longest(r)-time.Duration(len(r.wish.Keys))*(slack-prompt))
		}
		long, calm := j.idle(r)
		if long > idleMost {
			j.sayf(r, "nobody had the lock for %v, and it did not get it: %v", long, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			if r.wish.GiveUp == 0 || took < r.wish.GiveUp && r.under == nil {
				j.sayf(r, "it gave up after %v, and its deadline was not over: %v", took, err)
			}
			return
		}
		j.mu.Lock()
		alone := r.nth > 0 && j.wants[r.wish.Keys[0]].calls == r.nth && r.nobody > idleMost
		j.mu.Unlock()
		if alone && calm {
			j.sayf(r, "nobody else had wanted the lock for %v, and it was refused: %v", r.nobody, err)
		}
		if least := j.leastPatience(r); took < least {
			j.sayf(r, "it was refused after %v, and all policies of that moment say at least %v: %v", took, least, err)
		}
	case errors.Is(err, context.DeadlineExceeded) && r.wish.GiveUp > 0:
	default:
		j.sayf(r, "%v", err)
	}
}

// granted judges a lease at the moment when it is given.
func (j *judge) granted(r *record, lease *lockmw.Lease, took time.Duration) {
	j.asksFor(r, -1)
	opened := slices.ContainsFunc(r.wish.Keys, func(key string) bool { return lease.FenceOf(key) == 0 }) // of several, maybe not all
	switch {
	case lease.Shadow():
		j.inShadow(r)
		r.is(func(e effect) bool { return e.shadow && !e.off })
	case opened && slices.ContainsFunc(r.may, func(e effect) bool { return e.off }):
		r.is(func(e effect) bool { return e.off || e.locks() && e.policy.FailOpen && j.mayOpen(r) })
	case opened:
		if !r.wish.Policy.FailOpen {
			j.sayf(r, "a lease without a lock")
		}
		if !j.mayOpen(r) {
			j.sayf(r, "it ran without the lock, and Redis could answer")
		}
		r.is(effect.locks)
	default:
		if !slices.ContainsFunc(r.may, effect.locks) {
			j.sayf(r, "it has the lock, and no policy of that moment takes it")
		}
		r.is(effect.locks)
	}
	j.bound(r, "Acquire", took, j.longest(r)) // by those that explain it
	if r.free = !slices.ContainsFunc(r.may, effect.locks); r.free {
		j.leaves(r)
		r.lease, r.had = lease, time.Now()
		return
	}
	tokens := j.tokens(r, opened)
	defer j.outlasted(r)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.serves[r.process] = j.serves[r.process] || !opened
	r.lease, r.had, r.until = lease, time.Now(), lease.ValidUntil()
	j.goesOut(r)
	if least, most := r.trusted(took); !opened && (r.until.Before(r.had.Add(least)) || r.until.After(r.had.Add(most))) {
		j.addLockedf("process %d, %s %v: it is trusted for %v, want %v to %v by the policies of that moment", r.process, r.wish.Kind, r.wish.Keys, r.until.Sub(r.had), least, most)
	}
	for _, key := range r.wish.Keys {
		fence := lease.FenceOf(key)
		if j.holds(r, key) {
			j.besideLocked(r, key)
			j.overtakes(r, key)
			if alone(r) && fence <= j.fences[key] && j.keptFor(r, key, wellAfter+ahead) {
				j.addLockedf("the fence of %s fell from %d to %d", key, j.fences[key], fence)
			}
		}
		if alone(r) {
			j.fences[key] = max(j.fences[key], fence)
		}
	}
	j.active = append(j.active, r)
	j.moves(r)
	j.hasLocked(r, tokens)
}

// besideLocked judges who else has a key that is granted to r. The caller holds mu.
func (j *judge) besideLocked(r *record, key string) {
	if stays := j.stays[key]; time.Now().Before(stays) {
		j.addLockedf("%s was to stay taken until %v, and process %d has it", key, stays.Sub(j.world.began), r.process)
	}
	j.besideTickets(r, key)
	beside := 0
	for _, other := range j.active {
		if !j.holds(other, key) {
			continue
		}
		beside++
		if alone(r) || alone(other) {
			j.addLockedf("%s is held twice: process %d (%s, since %v) and process %d (%s, now)", key, other.process, other.wish.Kind,
				other.had.Sub(j.world.began), r.process, r.wish.Kind)
		}
	}
	if n := r.wish.Policy.Permits; n > 0 && beside >= n {
		j.addLockedf("%s has %d permits, and process %d is holder %d", key, n, r.process, beside+1)
	}
}

// alone reports whether a call wants its keys for itself.
func alone(r *record) bool { return r.wish.Policy.Mode != lockmw.Shared && r.wish.Policy.Permits == 0 }

// holds reports whether a call relies on its lock of a key, and may. Its work goes by its context; Valid would end that itself.
func (j *judge) holds(r *record, key string) bool {
	has := slices.Contains(r.wish.Keys, key) && r.lease.FenceOf(key) != 0 // else it runs without
	return has && r.lease.Context().Err() == nil && j.kept(r, key)
}

// worked judges a lease at the end of its work. From now on its caller does not rely on it.
func (j *judge) worked(r *record) {
	over := r.lease.Context().Err() != nil
	if !r.free {
		j.outlasted(r)
	}
	j.mu.Lock()
	j.active = slices.DeleteFunc(j.active, func(other *record) bool { return other == r })
	if until := r.lease.ValidUntil(); !until.IsZero() {
		r.until = until
	}
	if !r.free {
		j.moves(r)
	}
	j.mu.Unlock()
	if r.under != nil && r.under.Context().Err() != nil { // with which it ends
		return
	}
	least, most := r.maxHold()
	if over {
		switch cause := context.Cause(r.lease.Context()); {
		case errors.Is(cause, lockmw.ErrMaxHold) && time.Since(r.asked) >= least:
		case r.free && errors.Is(cause, lockmw.ErrLost):
			j.sayf(r, "there was no lock, and it was lost: %v", cause)
		case errors.Is(cause, context.DeadlineExceeded) && r.wish.GiveUp > 0:
		case r.wish.flies() && r.wish.GiveUp > 0 && strings.Contains(cause.Error(), "nobody waits"): // it has left, and then the others have
		case errors.Is(cause, lockmw.ErrLost):
			if !j.excused(r, r.had, FaultKind.refuses) && !j.tooFar(r) {
				j.sayf(r, "it was lost, and nothing was wrong with Redis: %v", cause)
			}
		default:
			j.sayf(r, "its context ended with %v", cause)
		}
		return
	}
	if !r.until.IsZero() && time.Now().After(r.until) {
		j.sayf(r, "the lease was over at %v, and its work was not told", r.until.Sub(j.world.began))
	}
	if time.Since(r.had) > most {
		j.sayf(r, "it was held for %v, and its work was not told, want at most %v", time.Since(r.had), most)
	}
}

// released judges a release.
func (j *judge) released(r *record, err error, took time.Duration) {
	defer j.leaves(r)
	most := 1300 * time.Millisecond
	if r.wish.Policy.AsyncRelease || r.free {
		most = j.atOnce(r)
	}
	j.bound(r, "Release", took, most)
	if !r.free {
		j.mu.Lock()
		j.moves(r)
		j.mu.Unlock()
	}
	switch {
	case r.lease.Shadow() && err != nil:
		j.sayf(r, "a release in shadow: %v", err)
	case err == nil:
		j.stay(r)
		j.frees(r)
	case errors.Is(err, lockmw.ErrLost) && errors.Is(context.Cause(r.lease.Context()), lockmw.ErrMaxHold):
	case errors.Is(err, lockmw.ErrLost), errors.Is(err, lockmw.ErrUnavailable):
		if !j.excused(r, r.had, FaultKind.refuses) && !j.tooFar(r) {
			j.sayf(r, "Release, and nothing was wrong with Redis: %v", err)
		}
	default:
		j.sayf(r, "Release: %v", err)
	}
}

// stay notes for how long MinHold keeps a key taken that was released: from when Redis granted it, which was a round trip and some calls of the
// observer ago as the caller had it.
func (j *judge) stay(r *record) {
	p := r.wish.Policy
	if p.MinHold == 0 || r.wish.Fails && !p.MinHoldOnError || r.lease.ValidUntil().IsZero() || j.excused(r, r.asked, FaultKind.refuses) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	key := r.wish.Keys[0]
	j.stays[key] = r.had.Add(p.MinHold - 2*j.world.parts[r.process].Away - 50*time.Millisecond)
}
