package lockmw

import (
	"time"

	"github.com/lockmw/kit/internal/holds"
)

// What a claim has learnt of a lock that others hold: who has it, and when it may come free.

// known is what a claim has learnt of the lock.
type known struct {
	seen        sighting      // who holds it, by the last answer
	holderLeft  time.Duration // what was left of the holder's TTL, by the last answer or the Locker's own tenure
	alsoWaiting int           // how many others wait for it, as far as is known
	met         *Holder       // who had it when the claim began to wait, for the observers; nil: not known, or nobody observes
}

// coolsDownFor is for how much longer the lock stays taken although nobody is at work under it,
// as far as the claim knows; otherwise 0.
func (k *known) coolsDownFor() time.Duration {
	if !k.seen.cools || !k.seen.fresh() {
		return 0
	}
	return k.seen.byNow().left // 0 if it has ended since: then another may be at work
}

// who returns who has the lock as far as the claim knows, of several the oldest, or nil, and a lease of this Locker
// that has it, or nil.
func (c *claim) who() (holder *Holder, own *Lease) {
	if c.seen.cools || !c.seen.fresh() {
		return nil, nil
	}
	seen := c.seen.byNow()
	if lease := c.locker.leaseOf(c.ref.Key, seen.siblings); lease != nil {
		if mine := sightingOf(lease).holder; seen.fence != 0 || mine.Age >= seen.holder.Age {
			return &mine, lease
		}
		own = lease
	}
	if seen.holder.Instance == "" {
		return nil, own
	}
	return &seen.holder, own
}

// meets notes whom a claim that begins to wait finds, for the observers. behind is the tenure in this Locker for which it
// waits, or nil: then Redis has told.
func (c *claim) meets(behind *tenure) {
	if len(c.locker.observers) == 0 {
		return
	}
	if lease := behind.lease(); lease != nil {
		holder := sightingOf(lease).holder
		c.met = &holder
		return
	}
	c.met, _ = c.who()
}

// learn notes what the claim has seen of how long others hold the lock. over says
// that the hold it has seen is over, so that it was held until now.
func (c *claim) learn(over bool) {
	seen := c.seen
	if seen.cools || seen.holder.HandedOn || seen.fence == 0 || seen.holder.Age == 0 || seen.holder.Instance == c.locker.Instance() {
		return // a hold of this Locker is noted when it is released
	}
	if over && seen.fresh() {
		seen = seen.byNow()
	}
	c.locker.history.Add(c.policy.Name, seen.fence, seen.holder.Age)
}

// comesFree estimates when a caller who asks again may find the lock free, or at
// least no queue: see Policy.RetryAfter.
func (c *claim) comesFree() time.Duration {
	lock := holds.Lock{
		Name: c.policy.Name, TTL: c.ref.TTL, Least: c.policy.MinHold,
		Left: c.ref.TTL, Turns: c.alsoWaiting / max(c.policy.Permits, 1),
	}
	if c.seen.fresh() {
		seen := c.seen.byNow()
		lock.Left, lock.Fence, lock.CoolingDown, lock.HandedOn = seen.left, seen.fence, seen.cools, seen.holder.HandedOn
		if seen.fence != 0 { // of several holders another one may be the next to go
			lock.Age = seen.holder.Age
		}
	}
	return c.locker.history.ComesFree(lock)
}
