package sim

import (
	"slices"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// This file says by which policies a call may run: by what operators have set until it began, and when its process must have
// learned of that at the latest. It is written from docs/operating.md, and asks nothing of the engine.

const (
	// fileSeen is within what time a process has looked at the file.
	fileSeen = 2*time.Second + 50*time.Millisecond
	// toldSeen is within what time a process has read Redis that hears a message, and some ways to Redis more.
	toldSeen = 300 * time.Millisecond
	// redisSeen is within what time it has done so by itself, also where one reading before has failed.
	redisSeen = 13 * time.Second
	// hearsAgain is within what time it hears messages again when its way to Redis is mended, and hears is the same for its begin.
	hearsAgain = 5 * time.Second
	hears      = 3 * time.Second
	// endsEarly is how much sooner a setting may end in a process than in Redis: by the way of the question, since what is left of it counts from
	// when it was asked for.
	endsEarly = 1100 * time.Millisecond
	// endsLate is how much later any may end.
	endsLate = 50 * time.Millisecond
)

// An effect is what a call may be by one of the policies that may apply.
type effect struct {
	policy      lockmw.Policy
	shadow, off bool
}

// locks reports whether the call takes its lock.
func (e effect) locks() bool { return !e.shadow && !e.off }

// effects are what a call may be that begins now. The judge's mutex is held.
func (w *world) effects(at int, wish Wish) []effect {
	all := []effect{{policy: wish.Policy, shadow: wish.Policy.Shadow}}
	if w.desk == nil || wish.Policy.Name == "" { // of an operator, who does not ask for a lock
		return all
	}
	program := all[0]
	all = nil
	add := func(e effect) {
		if !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	p := w.parts[at].Process
	for _, source := range p.sources(w.desk) {
		for _, pattern := range mostSpecificFirst(p.Service, wish.Policy.Name) {
			if source.stood[pattern] == nil {
				continue
			}
			known := w.mayKnow(at, source.reads, source.stood[pattern])
			for _, s := range known {
				if s != nil {
					e, _ := s.set.of(p, wish)
					add(e)
				}
			}
			if !slices.Contains(known, nil) { // what is less specific does not count
				return all
			}
		}
	}
	add(program)
	return all
}

// mostSpecificFirst are all patterns for a policy.
func mostSpecificFirst(service, name string) (all []string) {
	for _, s := range []string{service, "sim*", "*"} {
		for _, n := range []string{name, name[:1] + "*", "*"} {
			all = append(all, s+"/"+n)
		}
	}
	return all
}

// mayKnow are the settings that a process may have from what stood somewhere, one after the other; nil is none.
func (w *world) mayKnow(at, reads int, all []*stands) []*stands {
	now := time.Now()
	first := 0 // before that nothing counts: what stood there was read, and took the place of all
	for i := len(all) - 1; i > 0; i-- {
		until := now
		if i+1 < len(all) {
			until = all[i+1].at
		}
		if !all[i].broken && w.hasRead(at, reads, all[i], until) {
			first = i
			break
		}
	}
	known := []*stands{nil}
	for i, s := range all[first:] {
		until := now
		if first+i+1 < len(all) {
			until = all[first+i+1].at
		}
		if s.broken { // what stood there before stays
			continue
		}
		if s.text == "" || w.parts[at].denies(s) {
			s = nil
		}
		switch {
		case w.hasRead(at, reads, all[first+i], until):
			known = []*stands{s}
		case !slices.Contains(known, s):
			known = append(known, s)
		}
	}
	return endTheirTime(known, all, reads, now, w.judge.skew)
}

// endTheirTime takes out what has ended, and has nil in its place; what may have ended stays beside it: an entry in Redis ends sooner for
// those who read it first after the server's clock has jumped ahead.
func endTheirTime(known, all []*stands, reads int, now time.Time, skew time.Duration) (left []*stands) {
	for _, s := range known {
		if s == nil || s.lasts == 0 && s.ends.IsZero() {
			left = append(left, s)
			continue
		}
		from, by := s.ends, s.ends.Add(endsLate)
		if reads == readsRedis {
			from = from.Add(s.skew - skew - endsEarly)
		}
		if s.lasts > 0 { // it counts from when it was read: at the latest when it stood there last
			last := s
			for _, other := range all {
				if other.text == s.text {
					last = other
				}
			}
			from, by = first(all, s.text).Add(s.lasts), last.by.Add(fileSeen+s.lasts)
		}
		if !now.After(by) {
			left = append(left, s)
		}
		if !now.Before(from) {
			left = append(left, nil)
		}
	}
	return left
}

// first is when a text stood there first.
func first(all []*stands, text string) time.Time {
	return all[slices.IndexFunc(all, func(s *stands) bool { return s.text == text })].at
}

// denies reports whether a process does not allow what stands there: it counts as nothing.
func (p Process) denies(s *stands) bool {
	return !p.MayOff && (s.set.Off || s.set.Shadow == "true")
}

// hasRead reports whether a process has surely read what stood in a source until some moment.
func (w *world) hasRead(at, reads int, s *stands, until time.Time) bool {
	if s.by.IsZero() {
		return false
	}
	if reads == readsFile {
		return until.Sub(s.by) > fileSeen
	}
	well := w.wellSince(at, until)
	if until.Sub(later(s.by, well)) > redisSeen {
		return true
	}
	soon, hearing := toldSeen+10*w.parts[at].Away, w.began.Add(hears)
	if well.After(w.began) { // a message may have been lost on the way
		hearing = well.Add(hearsAgain)
		if s.at.Before(hearing) {
			return false
		}
	}
	return s.told && until.Sub(later(s.by, hearing)) > soon
}

// wellSince is since when nothing was wrong with a process' way to Redis, at some moment.
func (w *world) wellSince(at int, until time.Time) time.Time {
	since := w.began
	for _, f := range w.plan.Faults {
		begins := w.began.Add(f.At)
		if f.Kind != Restarted && (f.Process != at || !f.Kind.onTheWay()) || begins.After(until) {
			continue
		}
		if f.Kind == Gone {
			return until
		}
		since = later(since, begins.Add(f.lasts()))
	}
	if since.After(until) {
		return until
	}
	return since
}

// longWell reports whether nothing was wrong with a process' way to Redis for so long that nothing is left of that.
func (w *world) longWell(at int) bool {
	well := w.wellSince(at, time.Now())
	return well.Equal(w.began) || time.Since(well) > longestTTL+5*time.Second
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

const (
	// usualTTL is that of a policy that says none.
	usualTTL = 30 * time.Second
	// loweredTTL is what a setting may lower a TTL to, and loweredMaxHold a MaxHold.
	loweredTTL     = 5 * time.Second
	loweredMaxHold = time.Second
)

// of is what a setting makes of a call of a process. Where it does not fit, the policy stays as it is, as a whole.
func (f Fields) of(by Process, wish Wish) (e effect, fits bool) {
	unchanged := effect{policy: wish.Policy, shadow: wish.Policy.Shadow}
	e = unchanged
	p := &e.policy
	if f.Wait != 0 {
		p.Wait, p.Retries = max(f.Wait, 0), 0
	}
	if f.MaxHold != 0 {
		p.MaxHold = max(f.MaxHold, 0)
	}
	if f.TTL != 0 {
		p.TTL = f.TTL
	}
	if f.Shadow != "" {
		e.shadow = f.Shadow == "true"
	}
	e.off = f.Off
	ttl := wish.Policy.TTL
	if ttl == 0 {
		ttl = usualTTL
	}
	had := wish.Policy.MaxHold
	shorter := f.MaxHold > 0 && (had == 0 || f.MaxHold < had)
	switch {
	case wish.needsLock() && (f.Off || f.Shadow == "true"):
		return unchanged, false
	case shorter && (wish.flies() || !by.MayOff || f.MaxHold < loweredMaxHold):
		return unchanged, false
	case f.TTL != 0 && f.TTL < loweredTTL && f.TTL < ttl:
		return unchanged, false
	case p.AsyncRelease && p.Wait == 0 && p.Retries == 0:
		return unchanged, false
	case p.MaxHold > 0 && p.MinHold > p.MaxHold:
		return unchanged, false
	}
	return e, true
}

// says is what settings say of a call now, whether its process has read them or not; nothing where there are none.
func (d *desk) says(p Process, wish Wish) []string {
	if d == nil {
		return nil
	}
	d.world.judge.mu.Lock()
	defer d.world.judge.mu.Unlock()
	now := time.Now()
	for _, source := range p.sources(d) {
		for _, pattern := range mostSpecificFirst(p.Service, wish.Policy.Name) {
			all := source.stood[pattern]
			if len(all) == 0 {
				continue
			}
			s := all[len(all)-1]
			ended := s.lasts > 0 && now.After(s.at.Add(s.lasts)) || !s.ends.IsZero() && now.After(s.ends.Add(s.skew-d.world.judge.skew))
			if s.text == "" || s.broken || p.denies(s) || ended {
				continue
			}
			if _, fits := s.set.of(p, wish); !fits {
				return []string{unfit}
			}
			return s.set.says()
		}
	}
	return []string{asItIs}
}

// says are the fields as the table of what was met has them.
func (f Fields) says() (all []string) {
	for _, field := range f.list() {
		switch said := field[0] + "=" + field[1]; said {
		case noWait, tried, taken:
			all = append(all, said)
		default:
			all = append(all, field[0])
		}
	}
	return all
}

// A source is one that a process reads, and what stood there.
type source struct {
	reads int
	stood map[string][]*stands
}

// sources are those of a process: what stands in the file counts before what stands in Redis.
func (p Process) sources(d *desk) (all []source) {
	for _, s := range []source{{readsFile, d.file}, {readsRedis, d.redis}} {
		if p.Reads&s.reads != 0 {
			all = append(all, s)
		}
	}
	return all
}

// is leaves those of a call's policies that explain what came of it, if there is one.
func (r *record) is(so func(effect) bool) {
	may := slices.DeleteFunc(slices.Clone(r.may), func(e effect) bool { return !so(e) })
	if len(may) > 0 {
		r.may = may
	}
}

// trusted is for how long a lease can be relied on that was had after a while: by that of its policies that says least, unless
// it may have waited, as the TTL of a grant that was handed over is another one, and by that which says most.
func (r *record) trusted(took time.Duration) (least, most time.Duration) {
	least = time.Hour
	for _, e := range r.may {
		ttl := e.policy.TTL
		if ttl == 0 {
			ttl = usualTTL
		}
		ttl = max(ttl, e.policy.MinHold)
		most = max(most, ttl)
		if e.policy.Wait > 0 || e.policy.Retries > 0 {
			least = -time.Hour
		}
		least = min(least, ttl-ttl/100-2*time.Millisecond-max(50*time.Millisecond, ttl/10)-took)
	}
	return least, most
}

// maxHold is the MaxHold of a call, by those of its policies that say least and most; an hour stands for none.
func (r *record) maxHold() (least, most time.Duration) {
	least = time.Hour
	for _, e := range r.may {
		hold := e.policy.MaxHold
		if hold == 0 {
			hold = time.Hour
		}
		least, most = min(least, hold), max(most, hold)
	}
	return least, most
}

// mayBeCapped reports whether a call may have a MaxHold.
func (r *record) mayBeCapped() bool {
	return slices.ContainsFunc(r.may, func(e effect) bool { return e.policy.MaxHold > 0 })
}

// shortestTTL is the TTL of a call, by that of its policies that says least.
func (r *record) shortestTTL() time.Duration {
	least := time.Hour
	for _, e := range r.may {
		ttl := e.policy.TTL
		if ttl == 0 {
			ttl = usualTTL
		}
		least = min(least, ttl)
	}
	return least
}
