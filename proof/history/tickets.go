package history

import (
	"fmt"
	"slices"
	"time"
)

// This file judges locks that were handed on to tickets: that a ticket works once, and that nobody else has its lock meanwhile.

// Use is one call of Resume or Discard by a ticket.
type Use struct {
	ID       int           `json:"id"`     // within its process
	Ticket   string        `json:"ticket"` // the job that has it
	Worker   string        `json:"worker"`
	TTL      time.Duration `json:"ttl"` // of the lease that it asked for
	Asked    time.Duration `json:"asked"`
	Returned time.Duration `json:"returned"`       // 0: its process ended before
	Came     string        `json:"came,omitempty"` // what came of it; empty: that is not known
}

// What comes of the use of a ticket.
const (
	WentOn    = "went on"   // Resume returned a lease
	Spent     = "spent"     // Resume returned ErrTicketSpent
	Early     = "early"     // Resume returned ErrNotAcquired, since the lock was not handed on yet
	Discarded = "discarded" // Discard returned nil
)

// maySpend reports whether the ticket may have lost its lock by this use. One that was told that the ticket is spent may have spent it by an earlier command
// that was not answered. But then the lock was its own, until the TTL was over.
func (u Use) maySpend() bool {
	return u.Came != Early && (u.Came != Spent || u.Returned-u.Asked > u.TTL-rounding)
}

// ResumedTwice returns what went on by a ticket by which another hold had gone on: a ticket works once.
func ResumedTwice(holds []Hold) (twice []string) {
	for ticket, by := range byKey(holds, func(h Hold) string { return h.Ticket }) {
		if ticket != "" && len(by) > 1 {
			twice = append(twice, fmt.Sprintf("%s: by the ticket of %s %s/%d went on, and %s/%d", by[0].Key, ticket, by[0].Worker, by[0].ID, by[1].Worker, by[1].ID))
		}
	}
	slices.Sort(twice)
	return twice
}

// Resumed counts the holds that went on by a ticket.
func Resumed(holds []Hold) (n int) {
	for _, h := range holds {
		if h.Ticket != "" {
			n++
		}
	}
	return n
}

// A keep is a time for which a lock was a ticket's for certain, where Redis keeps its word.
type keep struct {
	issuer Hold
	from   time.Duration // the issuer's release was confirmed
	unused time.Duration // nobody had used the ticket, and its time was not over
	to     time.Duration // as unused; or somebody had gone on by the ticket: nobody else can have had the lock until then
}

// rounding is how much sooner the time of a ticket or of a lock may be over than it was given: Redis counts in whole milliseconds.
const rounding = 2 * time.Millisecond

// handedOn reports whether the hold's release was confirmed, and has handed the lock on for certain. A release whose first command was not answered
// takes "not held" for the success of that one. So it says nothing about a lease that was over by then.
func (h Hold) handedOn() bool { return h.HandsOn != "" && h.How == Released && h.Freed <= h.Until }

// keeps returns for how long each ticket had its lock.
func keeps(holds []Hold, uses []Use) (all []keep) {
	usesOf := byKey(uses, func(u Use) string { return u.Ticket })
	wentOn := byKey(holds, func(h Hold) string { return h.Ticket })
	for _, h := range holds {
		if !h.handedOn() {
			continue
		}
		k := keep{issuer: h, from: h.Freed, unused: h.Ended + h.Lasts - rounding}
		for _, u := range usesOf[h.HandsOn] {
			if u.maySpend() {
				k.unused = min(k.unused, u.Asked)
			}
		}
		k.to = k.unused
		if by := wentOn[h.HandsOn]; len(by) > 0 {
			k.to = min(by[0].Began, by[0].Ended)
		}
		all = append(all, k)
	}
	return all
}

// Kept counts the times in which a ticket had a lock for certain, however short.
func Kept(holds []Hold, uses []Use) (n int) {
	for _, k := range keeps(holds, uses) {
		if k.from < k.to {
			n++
		}
	}
	return n
}

// TakenFromTickets returns, for each ticket, a hold that another one had while the lock was the ticket's: from when its issuer's release was
// confirmed until somebody went on by the ticket, or may have used it, or its time was over.
func TakenFromTickets(holds []Hold, uses []Use) (taken []string) {
	ofKey := byKey(holds, func(h Hold) string { return h.Key })
	for _, k := range keeps(holds, uses) {
		for _, h := range ofKey[k.issuer.Key] {
			if max(h.Began, k.from) < min(h.Ended, k.to) {
				taken = append(taken, fmt.Sprintf("%s: %s/%d had the lock from %v to %v (%s), "+
					"which %s/%d had handed on to the ticket of %s at %v, where it was until %v",
					h.Key, h.Worker, h.ID, h.Began, h.Ended, h.How, k.issuer.Worker, k.issuer.ID, k.issuer.HandsOn, k.from, k.to))
				break // one is enough for a ticket
			}
		}
	}
	slices.Sort(taken)
	return taken
}

// SpentTooSoon returns the uses that were told that a ticket is spent while its issuer still had the lock, or the ticket had it.
func SpentTooSoon(holds []Hold, uses []Use) (wrong []string) {
	usesOf := byKey(uses, func(u Use) string { return u.Ticket })
	for _, k := range keeps(holds, uses) {
		for _, u := range usesOf[k.issuer.HandsOn] {
			if u.Came == Spent && u.Asked >= k.issuer.Began && u.Returned < k.unused {
				wrong = append(wrong, fmt.Sprintf("%s: %s was told between %v and %v that the ticket of %s is spent; %s/%d handed the lock on to it at %v, and nobody had used it until %v",
					k.issuer.Key, u.Worker, u.Asked, u.Returned, u.Ticket, k.issuer.Worker, k.issuer.ID, k.from, k.unused))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// ResumedDiscarded returns the holds that went on by a ticket that had been discarded before they were asked for.
func ResumedDiscarded(holds []Hold, uses []Use) (wrong []string) {
	wentOn := byKey(holds, func(h Hold) string { return h.Ticket })
	for _, u := range uses {
		if u.Came != Discarded {
			continue
		}
		for _, h := range wentOn[u.Ticket] {
			if h.Asked > u.Returned {
				wrong = append(wrong, fmt.Sprintf("%s: %s/%d was asked for at %v, and went on by the ticket of %s, which %s had discarded at %v",
					h.Key, h.Worker, h.ID, h.Asked, u.Ticket, u.Worker, u.Returned))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}
