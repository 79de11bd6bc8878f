package model

import "slices"

// This file says which steps may be taken from a state.

// An op is a kind of step.
type op uint8

const (
	opPass     op = iota // a second passes
	opAsk                // a claim begins, or asks again
	opAskLast            // a waiting claim asks for the last time
	opLeave              // a claim's caller leaves
	opRenew              // a holder renews
	opLook               // a holder looks for an answer of others
	opRelease            // a holder gives the lock back
	opCarryOut           // the server carries a command out, or its next step
	opReply              // a reply arrives
	opVanish             // a command that nobody waits for never arrives
	opHear               // a Locker's first message arrives
	opListen             // a Locker's subscription is there again
	opWork               // a holder's work begins
	opFail               // a holder's work fails, or does not begin
	opResolve            // an operator says that work is to be done again
	opDoubt              // a release that was to hand the lock on is given up, and nobody knows what came of it
	opClear              // what a claim may have left is removed, since nothing of it is to stay any more
	opRefuse             // while a slot moves: what is left of the four commands of set.go is refused
	opOneKey             // a command is carried out, or its next step, in the form that concerns one key
	opMoved              // the slot has moved
	opFault              // a fault; its kind in a, its place in b
)

// A step is one that may be taken.
type step struct {
	op   op
	a, b uint8
}

// steps appends the steps that may be taken in s.
func (z *Size) steps(s *state, all []step) []step {
	for i := range z.claims() {
		if n := uint8(i); !s.lockers[z.of(n)].dead {
			all = z.stepsOf(s, n, all)
		}
	}
	for i := range s.net {
		all = z.stepsWhileMoving(s, uint8(i), all)
		switch c, n := &s.net[i], uint8(i); {
		case z.isBlocked(s, c):
			if c.lost {
				all = append(all, step{opVanish, n, 0})
			}
		case c.executed:
			all = append(all, step{opReply, n, 0})
		case c.byOneKey() && c.lost:
			all = append(all, step{opVanish, n, 0})
		case c.byOneKey():
		case c.lost:
			all = append(all, step{opCarryOut, n, 0}, step{opVanish, n, 0})
		default:
			all = append(all, step{opCarryOut, n, 0})
		}
	}
	if s.moving {
		all = append(all, step{opMoved, 0, 0})
	}
	for i := range z.Lockers {
		switch l, n := &s.lockers[i], uint8(i); {
		case l.dead:
		case l.deaf:
			all = append(all, step{opListen, n, 0})
		case len(l.inbox) > 0:
			all = append(all, step{opHear, n, 0})
		}
	}
	if owner, noted := z.noted(&s.locks[0].db); noted && int(s.resolves) < z.Again {
		all = append(all, step{opResolve, owner, 0})
	}
	if z.isBusy(s) && z.mayPass(s) {
		all = append(all, step{opPass, 0, 0})
	}
	return all
}

// isBusy reports whether time can change anything.
func (z *Size) isBusy(s *state) bool {
	if len(s.net) > 0 || slices.ContainsFunc(s.locks[:], func(l lock) bool { return l.db[keyLock].kind != absent }) {
		return true
	}
	for i := range z.claims() {
		if c := &s.claims[i]; c.phase != idle && c.phase != gone && !s.lockers[z.of(uint8(i))].dead {
			return true
		}
	}
	return false
}

// stepsOf appends the steps that a claim may take by itself.
func (z *Size) stepsOf(s *state, n uint8, all []step) []step {
	c := &s.claims[n]
	mayLeave := int(s.leaves) < z.Leaves
	switch c.phase {
	case idle:
		if z.Async && z.Hole != NoSettling && z.gives(s, n) && z.goesBehind(s, n) < 0 {
			break // it awaits the reply
		}
		if z.role(n) == Resumes && !s.mayResume() {
			break // there is no ticket yet
		}
		if n != z.inTurn(n, 0) {
			break // it asks when those before it have their locks
		}
		all = append(all, step{opAsk, n, 0})
	case asking:
		if mayLeave {
			all = append(all, step{opLeave, n, 0})
		}
	case resting:
		if s.clock()-c.asked >= second && z.isFront(s, n) {
			all = append(all, step{opAsk, n, 0})
		}
		if mayLeave {
			all = append(all, step{opLeave, n, 0})
		}
	case waiting:
		if s.clock()-c.asked >= second && z.Hole != NoAsking {
			all = append(all, step{opAsk, n, 0})
		}
		if mayLeave {
			all = append(all, step{opAskLast, n, 0}, step{opLeave, n, 0})
		}
	case holding:
		return z.stepsOfHolder(s, n, all)
	case giving:
		if z.role(n) == Issues && c.released && !c.undone {
			all = append(all, step{opDoubt, n, 0})
		}
	case leaving:
		if c.since > 0 && s.clock() >= c.since+minHold {
			all = append(all, step{opClear, n, 0})
		}
	case gone:
	}
	return all
}

// stepsOfHolder appends the steps that one who has the lock may take by itself.
func (z *Size) stepsOfHolder(s *state, n uint8, all []step) []step {
	c := &s.claims[n]
	if slices.ContainsFunc(s.net, func(o command) bool { return o.claim == n && o.what == renew && !o.lost }) {
		if z.Async && !z.isToStay(s, n) { // it is sent at once, beside the renewal
			all = append(all, step{opRelease, n, 0})
		}
		return all // any other release awaits it
	}
	if z.waitsFor(s, n) {
		return all // renewParts sees to it
	}
	switch looks := func(o command) bool { return o.claim == n && (o.what == look || o.what == note) && !o.lost }; {
	case z.role(n) == Issues && z.Fails:
		all = append(all, step{opRelease, n, 0}, step{opFail, n, 0})
	case z.Notes:
		all = z.stepsOfWork(c, n, slices.ContainsFunc(s.net, looks), all)
	case !z.Do || c.looked || c.served:
		if others := z.parts(n)[:z.lock(n)]; !slices.ContainsFunc(others, func(p uint8) bool { return s.claims[p].phase == holding }) { // they are released together
			all = append(all, step{opRelease, n, 0})
		}
	case !slices.ContainsFunc(s.net, looks):
		all = append(all, step{opLook, n, 0})
	}
	if z.Renews && !c.renewed && !c.lost {
		all = append(all, step{opRenew, n, 0})
	}
	return all
}

// isToStay reports whether a claim's lock is to stay taken behind a release that is sent now.
func (z *Size) isToStay(s *state, n uint8) bool {
	return z.Stays && s.claims[n].since+minHold > s.clock()
}

// gives reports whether a release of the claim's process is under way.
func (z *Size) gives(s *state, n uint8) bool {
	for i := range z.claims() {
		if z.of(uint8(i)) == z.of(n) && s.claims[i].phase == giving {
			return true
		}
	}
	return false
}

// goesBehind returns the place of the release in s.net behind which the first question of a claim goes, over the same connection, or -1: that is the only
// one of its process that is under way, and the question is that of set.go.
func (z *Size) goesBehind(s *state, n uint8) int {
	c, at := &s.claims[n], -1
	if !z.Async || z.Hole == NoSettling || z.Do || z.NoSet || c.doubt || z.kind(n) != Exclusive || z.role(n) != Plain {
		return -1
	}
	for i := range z.claims() {
		if other := &s.claims[i]; z.of(uint8(i)) == z.of(n) && other.phase == giving {
			if at >= 0 || other.released {
				return -1
			}
			at = slices.IndexFunc(s.net, func(o command) bool { return o.claim == uint8(i) && (o.what == release || o.what == offer) && !o.lost })
			if at < 0 {
				return -1
			}
		}
	}
	return at
}

// isBlocked reports whether a command cannot be carried out before the release that it follows. One that a slot in move has refused is sent anew, over
// another connection.
func (z *Size) isBlocked(s *state, c *command) bool {
	return c.follows && !s.moved && slices.ContainsFunc(s.net, func(o command) bool { return o.followed && !o.executed && z.of(o.claim) == z.of(c.claim) })
}

// mayPass reports whether time may pass now: a reply that has not come within a second counts as none (LoseReply), what
// was sent arrives within two seconds or never, a message within three, and who waits asks again every two.
func (z *Size) mayPass(s *state) bool {
	for i := range s.net {
		c, most := &s.net[i], second
		if c.what == resolve { // an operator may take any time
			continue
		}
		if c.lost {
			most = 2 * second
		}
		if s.clock()-c.sent >= most || z.Prompt && !c.lost {
			return false
		}
	}
	for i := range z.claims() {
		c := &s.claims[i]
		asks := c.phase == waiting && z.Hole != NoAsking || c.phase == resting && z.isFront(s, uint8(i))
		if asks && !s.lockers[z.of(uint8(i))].dead && s.clock()-c.asked >= 2*second {
			return false
		}
	}
	for i := range z.Lockers {
		if inbox := s.lockers[i].inbox; len(inbox) > 0 && (z.Prompt || s.now()-inbox[0].at >= 3*second) {
			return false
		}
	}
	return true
}

// alone is added to the place of a command which has no reply, although what follows it on its connection may have one.
const alone = 100

// faults appends the faults that may happen in s.
func (z *Size) faults(s *state, all []step) []step {
	if int(s.faults) >= z.Faults {
		return all
	}
	for _, f := range z.May {
		switch f {
		case LoseReply:
			for i := range s.net {
				if !s.net[i].lost {
					all = append(all, step{opFault, uint8(f), uint8(i)})
				}
				if o := &s.net[i]; o.followed && !o.executed && !o.lost { // its time is over, and that of what follows it is not
					all = append(all, step{opFault, uint8(f), uint8(i) + alone})
				}
			}
		case Delete, Forget, Force:
			for i := range z.locks() {
				if s.locks[i].db[keyLock].kind != absent {
					all = append(all, step{opFault, uint8(f), uint8(i)})
				}
			}
		case MoveSlot:
			if !s.moving {
				all = append(all, step{opFault, uint8(f), 0})
			}
		case SetBack:
			all = append(all, step{opFault, uint8(f), 0})
		default:
			all = z.faultsOfLockers(s, f, all)
		}
	}
	return all
}

// faultsOfLockers appends the faults of a kind that concerns a Locker.
func (z *Size) faultsOfLockers(s *state, f Fault, all []step) []step {
	for i := range z.Lockers {
		l := &s.lockers[i]
		if !l.dead && (f != LoseMessage || len(l.inbox) > 0) && (f != Deafen || !l.deaf) {
			all = append(all, step{opFault, uint8(f), uint8(i)})
		}
	}
	return all
}
