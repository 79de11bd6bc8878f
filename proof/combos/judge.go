package combos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/test/stalls"
)

// Violation is something that must not be.
type Violation struct {
	Rule  string `json:"rule"`
	Text  string `json:"text"`  // of the first
	Times int    `json:"times"` // in this round
}

// The rules that a round is judged by.
const (
	ruleOverlap    = "two holders"
	ruleOpen       = "ran without the lock"
	ruleError      = "the wrong error"
	ruleKeys       = "keys left in Redis"
	ruleCancel     = "back late after its context ended"
	ruleClose      = "Close took too long"
	ruleGoroutines = "goroutines left"
	ruleLease      = "lease lost"
	ruleTold       = "the loss was not told"
	ruleWait       = "waited too long"
	ruleProgress   = "nobody was served"
	ruleTicket     = "a ticket did not work"
	rulePanic      = "a panic came out"
)

// violatef notes a violation. Of several of one rule, the text of the first is kept,
// and how many there were.
func (r *round) violatef(rule, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, v := range r.violations {
		if v.Rule == rule {
			r.violations[i].Times++
			return
		}
	}
	r.violations = append(r.violations, Violation{Rule: rule, Text: fmt.Sprintf(format, args...), Times: 1})
}

// bound is a limit, for what began and ended at these times, that a busy machine
// does not break. Redis shares the machine, so a stall counts twice.
func (r *round) bound(limit, from, to time.Duration) time.Duration {
	if r.exact {
		return limit
	}
	return limit + 2*r.stood(from, to)
}

// grace is how long after a fault its consequences may be seen.
func grace(sees sight, length string) time.Duration {
	switch {
	case sees == well, length == hiccup && (sees == silent || sees == late):
		return 0
	case sees == broken:
		return 300 * time.Millisecond
	}
	return 1300 * time.Millisecond // a command that was under way may take a second
}

// sees returns how the fault looks to one of the Lockers. A silence that is
// shorter than any caller's patience with Redis is none.
func (r *round) sees(by string) sight {
	switch {
	case by == byWitness && !r.fault.server:
		return well
	case r.c.Load == crowd: // thousands who wait until it answers make more of it
	case r.c.Length == hiccup && (r.fault.sees == silent || r.fault.sees == late) && r.silence() < patience:
		return well
	}
	return r.fault.sees
}

// patience is how long a server gives no answer before a Locker takes it for away,
// 250 ms, less what a measurement may miss.
const patience = 230 * time.Millisecond

// silence is the longest time in which there is no answer. Two hiccups are one if no
// round trip fits between them, or with TLS, the handshake of those who were cut off.
func (r *round) silence() (longest time.Duration) {
	trip := 2 * r.c.Distance
	needs := trip
	if r.c.Site == tlsSite {
		needs += trip + 50*time.Millisecond
	}
	var from time.Duration
	for i, w := range r.windows {
		if i == 0 || w.from-r.windows[i-1].to > r.bound(needs, r.windows[i-1].to, w.from) {
			from = w.from
		}
		longest = max(longest, w.to-from+trip)
	}
	return longest
}

// during says whether a time lies in a fault, or so soon after it that its
// consequences may still be seen.
func (r *round) during(by string, from, to time.Duration) bool {
	if r.sees(by) == well {
		return false
	}
	length := r.c.Length
	if r.silence() >= patience {
		length = brief
	}
	more := r.bound(grace(r.fault.sees, length), from, to)
	if r.c.Load == crowd {
		more += 300 * time.Millisecond
	}
	if by == byOurs && r.c.Trait == slowDialer {
		more += r.dial
	}
	for _, w := range r.windows {
		if (from <= w.to+more || r.fault.lasting) && to >= w.from {
			return true
		}
	}
	return false
}

// unanswered says that a call may have been refused, or gone without the lock,
// because its answer took longer than it has patience with Redis: where the user's
// dialer takes longer than the policy waits, and where thousands ask at once.
func (r *round) unanswered(k call) bool {
	if r.c.Load == crowd && k.returned-k.asked > 200*time.Millisecond || r.starved(k.asked, k.returned) {
		return true
	}
	return k.by == byOurs && r.c.Trait == slowDialer
}

// starved says that a server, or this process, got so little of the machine that
// Redis may have been taken for silent in a time. It excuses no known mistake.
func (r *round) starved(from, to time.Duration) bool {
	if r.exact {
		return false
	}
	var faults []window
	if r.fault.server && r.fault.sees != refuses { // what refuses a command answers a ping
		faults = r.windows
	}
	enough := 80 * time.Millisecond // of the 250 ms after which a server is silent
	if r.c.Load == crowd {          // each of thousands has to be served as well
		enough /= 2
	}
	from -= 400 * time.Millisecond
	return r.longest(r.pulse, from, to, faults) > enough || r.longest(r.meter, from, to, nil) > enough
}

// stood is how long this process stood still in a time.
func (r *round) stood(from, to time.Duration) time.Duration {
	return r.meter.Between(r.began.Add(from), r.began.Add(to))
}

// longest returns the longest stall that lay in a time, at least in part, other than in these
// windows.
func (r *round) longest(m *stalls.Meter, from, to time.Duration, other []window) (longest time.Duration) {
	for _, s := range m.Within(r.began.Add(from), r.began.Add(to)) {
		in := func(w window) bool { return s.Ended.Sub(r.began) >= w.from && s.Began.Sub(r.began) <= w.to }
		if !slices.ContainsFunc(other, in) {
			longest = max(longest, s.Took())
		}
	}
	return longest
}

// spared says that a call that took too long may be one of those that a blocked logger
// held up. There is one such call for each record, and each is spared once.
func (r *round) spared() bool { return r.c.Logger == blocked && r.logged.Add(-1) >= 0 }

// judge looks at all calls.
func (r *round) judge() {
	for _, k := range r.calls {
		if k.panicked != "" {
			r.violatef(rulePanic, "a call of %s panicked: %s", k.by, k.panicked)
			continue
		}
		r.judgeTime(k)
		switch k.outcome {
		case granted:
			r.judgeLease(k)
		case ranOpen:
			r.judgeOpen(k)
		default:
			r.judgeRefusal(k)
		}
	}
	r.judgeOverlaps()
	r.judgeProgress()
	r.judgeNotAcquired()
}

// at tells when the faults were.
func (r *round) at() string {
	var text []string
	for _, w := range r.windows {
		text = append(text, fmt.Sprintf("%v to %v", w.from.Round(time.Millisecond), w.to.Round(time.Millisecond)))
	}
	return "fault from " + strings.Join(text, ", ")
}

// judgeTime looks at how long a call took.
func (r *round) judgeTime(k call) {
	if k.blocked || k.holds {
		return
	}
	took := k.returned - k.asked
	if k.ctxEnded > 0 {
		late := k.returned - k.ctxEnded
		r.worst["cancel"] = max(r.worst["cancel"], late)
		limit := 400 * time.Millisecond
		if r.c.Load == crowd {
			limit += 200 * time.Millisecond
		}
		if late > r.bound(limit, k.ctxEnded, k.returned) && !r.spared() {
			r.violatef(ruleCancel, "%v after its context had ended: %v", late.Round(time.Millisecond), k)
		}
		return
	}
	if k.wait >= 0 {
		limit := max(k.wait, time.Second)
		if k.wait > 0 {
			limit = k.wait
		}
		if r.c.Load == crowd || r.c.Trait == poolOfOne { // all want one connection, or two cores
			limit += 2 * time.Second
		}
		if r.c.Closes && len(k.keys) > 1 { // a Locker that is closed gives back what it had before the call returns
			limit += time.Second
		}
		if took > r.bound(limit+time.Second, k.asked, k.returned) && !r.spared() {
			r.violatef(ruleWait, "%v for a wait of %v: %v; %s", took.Round(time.Millisecond), k.wait, k, r.at())
		}
	}
	r.judgeKnown(k, took)
}

// knownAfter is after how long a Locker with callers must know that Redis is away.
const knownAfter = 1300 * time.Millisecond

// judgeKnown looks at how long a call took that came while Redis was away for long.
func (r *round) judgeKnown(k call, took time.Duration) {
	if sees := r.sees(k.by); k.by != byOurs || r.c.Length != long || sees != silent && sees != away || r.c.Trait == slowDialer || r.c.Closes || r.c.Load == crowd || r.c.Logger == blocked {
		return
	}
	if r.c.Fault == writesPaused { // Redis answers, if it is asked for nothing but a sign of life
		return
	}
	limit := func(d time.Duration) time.Duration { return r.bound(d, k.asked, k.returned) }
	elsewhere := time.Duration(0) // what is to be found out about the other masters of a Cluster
	if r.c.Site == clusterSite {
		elsewhere = time.Duration(min(len(k.keys), len(r.site.nodes))-1) * 250 * time.Millisecond
	}
	opens := r.c.FailOpen && k.handed == 0
	w := r.windows[0]
	heard := r.lastHeard(w, k.returned)
	known := k.asked >= heard+knownAfter && k.asked < w.to-700*time.Millisecond
	first := k.asked >= w.from && k.asked < w.from+300*time.Millisecond
	if first && heard > k.asked {
		took = k.returned - heard
	}
	switch {
	case opens && known && took > limit(450*time.Millisecond+elsewhere):
		r.violatef(ruleWait, "%v to go on without the lock, with Redis known to be away: %v; %s", took.Round(time.Millisecond), k, r.at())
	case opens && first && took > limit(1600*time.Millisecond+elsewhere):
		r.violatef(ruleWait, "%v to go on without the lock, with Redis away: %v; %s", took.Round(time.Millisecond), k, r.at())
	case !opens && k.wait > 0 && known && took > limit(650*time.Millisecond+elsewhere):
		r.violatef(ruleWait, "%v to be refused, with Redis known to be away: %v; %s", took.Round(time.Millisecond), k, r.at())
	}
}

// lastHeard is when ours heard last of Redis before a time in a fault, or when the fault began. Where requests alone are lost,
// the messages still come that the witness causes when it releases a lock, or leaves the queue, and so Redis is not silent.
func (r *round) lastHeard(fault window, before time.Duration) time.Duration {
	last := fault.from
	if !r.fault.repliesCome {
		return last
	}
	for _, k := range r.calls {
		over := k.returned
		if k.outcome == granted {
			over = k.released
		}
		if k.by == byWitness && over < before {
			last = max(last, over)
		}
	}
	return min(last, fault.to)
}

// judgeLease looks at a lease, from the grant to the release.
func (r *round) judgeLease(k call) {
	if k.release == unavailable && !r.during(k.by, k.ended, k.released) && r.closing == 0 && !r.unanswered(k) &&
		!r.starved(k.ended, k.released) && (r.c.Load < crowd || k.released-k.ended < 900*time.Millisecond) {
		r.violatef(ruleError, "a release while Redis was well: ErrUnavailable; %v", k)
	}
	limit := 3 * time.Second
	if r.c.Async && r.closing == 0 { // while the Locker is closed releases are awaited
		limit = 500 * time.Millisecond
		if k.release == unavailable {
			r.violatef(ruleError, "a release that is not awaited knows that Redis was away; %v", k)
		}
	}
	if r.c.Observer == slow { // it is told of the release
		limit += 2 * observerBlocks
	}
	if k.released-k.ended > r.bound(limit, k.ended, k.released) && !k.blocked && !r.spared() {
		r.violatef(ruleWait, "%v to release; %v", k.released-k.ended, k)
	}
	if k.lost || k.release == lost {
		r.judgeLost(k)
	} else if r.mustEnd(k) {
		r.violatef(ruleTold, "%v: its Redis was away for longer than the TTL, and it held on; %s", k, r.at())
	}
}

// farAndShort says that the first renewal of a TTL of a second comes late where a
// round trip, or several of them, take a good part of it.
func (r *round) farAndShort() bool {
	return r.c.TTL == shortTTL && r.c.Distance >= 40*time.Millisecond
}

// judgeLost looks at a lease that ended while it was held.
func (r *round) judgeLost(k call) {
	if r.closing > 0 && k.released >= r.closing || k.returned-k.asked > r.c.TTL/2 { // a lease counts from before Acquire's command, so little of it may have been left
		return
	}
	if r.c.Load == crowd && k.released-k.ended > r.c.TTL/2 { // it was over before its release got through
		return
	}
	if k.release != lost {
		r.violatef(ruleTold, "a lost lease's release says %q; %v", k.release, k)
	}
	sees := r.sees(k.by)
	slowly := k.by == byOurs && r.c.Trait == slowDialer || r.stood(k.returned, k.ended) > 50*time.Millisecond || r.starved(k.returned, k.ended) || k.blocked
	switch {
	case sees == elects:
	case r.c.TTL == longTTL, sees == well && !slowly && (r.c.Length != hiccup || !r.farAndShort()),
		(sees == broken || r.c.Length == hiccup) && !slowly && !r.farAndShort(),
		sees == moves && k.holds && k.by == byOurs && (r.c.Form == mutex || r.c.Form == minHold) && !slowly && !r.farAndShort():
		r.violatef(ruleLease, "held from %v to %v, TTL %v; %v; %s", k.returned.Round(time.Millisecond), k.ended.Round(time.Millisecond), r.c.TTL, k, r.at())
	}
}

// mustEnd says whether a lease was held over a silence that is longer than its
// TTL.
func (r *round) mustEnd(k call) bool {
	sees := r.sees(k.by)
	if !k.holds || k.by != byOurs || r.c.TTL != shortTTL || r.c.Length != long || sees != silent && sees != away && sees != closes || r.c.Fault == "LOADING" {
		return false
	}
	w := r.windows[0]
	return k.returned < w.from && k.ended > w.from+r.bound(r.c.TTL+200*time.Millisecond, w.from, w.to) && w.to-w.from > r.bound(r.c.TTL+300*time.Millisecond, w.from, w.to)
}

// judgeOpen looks at a call that went on without the lock.
func (r *round) judgeOpen(k call) {
	sees := r.sees(k.by)
	var why string
	switch {
	case k.blocked:
		return
	case !r.c.FailOpen, k.holds:
		why = "its policy fails closed"
	case r.unanswered(k), r.c.Fault == "max clients":
		return
	case r.c.Site == nodeSite && k.by == byOurs:
		why = "Redis answered (MOVED)"
	case sees == well:
		why = "Redis was well"
	case sees == refuses:
		why = "Redis answered"
	case sees == moves:
		why = "Redis answered (TRYAGAIN, MOVED)"
	case sees == closes:
		why = "connections that break say nothing about the locks"
	case sees == broken && (k.wait < 0 || k.wait >= 500*time.Millisecond):
		why = "Redis could be reached at once"
	case !r.during(k.by, k.asked, k.returned):
		why = "Redis was well by then"
	default:
		return
	}
	r.violatef(ruleOpen, "%s: %v, keys %q; %s", why, k, k.open, r.at())
}

// judgeRefusal looks at the error of a call.
func (r *round) judgeRefusal(k call) {
	switch {
	case k.blocked:
	case k.handed > 0 && (k.outcome == spent || k.outcome == notAcquired):
		r.judgeTicket(k)
	case k.outcome == closed && r.closing > 0 && k.returned >= r.closing, k.outcome == notAcquired:
	case k.outcome == unavailable:
		r.judgeUnavailable(k)
	default:
		r.violatef(ruleError, "%v; %s", k, r.at())
	}
}

// judgeTicket looks at a call that could not go on by its ticket, though Redis answered: another master may not know of it, or its time may be over,
// or that of the lock was over when the command came that was to hand it on.
func (r *round) judgeTicket(k call) {
	if r.fault.sees != elects && k.handing < patience && k.returned-k.handed < ticketLasts-100*time.Millisecond {
		r.violatef(ruleTicket, "%v after it was handed the lock: %v; %s", k.returned-k.handed, k, r.at())
	}
}

// judgeUnavailable looks at a call that was told that Redis is not there.
func (r *round) judgeUnavailable(k call) {
	switch {
	case r.closing > 0 && k.returned >= r.closing, r.during(k.by, k.asked, k.returned), r.unanswered(k):
	case k.ctxEnded > 0 && k.deadline: // as documented, where Redis did not answer until then
	case r.c.Site == nodeSite && k.by == byOurs:
		if !strings.Contains(k.err, "NewClusterClient") {
			r.violatef(ruleError, "a client of one node of a Cluster is not told what to use: %v", k)
		}
	case r.c.Trait == poolOfOne && strings.Contains(k.err, "no free connection"): // all of a burst want the one
	case r.farAndShort() && strings.Contains(k.err, "was lost while"):
	case r.c.Length == hiccup && r.c.Distance >= 40*time.Millisecond && strings.Contains(k.err, "no answer for"): // with the way, it was 250 ms
	default:
		r.violatef(ruleError, "Redis was well: %v; %s", k, r.at())
	}
}
