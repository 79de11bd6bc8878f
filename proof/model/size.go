package model

import (
	"errors"
	"slices"
)

// This file says what is looked at.

// A Size says what is looked at: how much of everything, and what may go wrong.
type Size struct {
	Name    string
	Lockers int       // processes
	Claims  int       // calls of Acquire in each, at any time, also at the same
	Keys    int       // how many keys each call is for, and so how many of the claims are its; 0: one
	AtOnce  bool      // with Keys: a call asks for all of them in one step first
	NoSet   bool      // no lock is taken by SET, as in the first call of a process: each is asked for by the script
	Prompt  bool      // no second passes while somebody waits for a reply, or a message is on its way
	Rests   bool      // who comes while another call of its process has the lock, or waits for it, rests; and the lock passes on within a process
	Absent  int       // how many of the claims, of the last Locker, are never made
	Alike   bool      // of states that differ in the names of the Lockers alone, one is looked at
	Kinds   []Kind    // of the claims, in turn; none: all are exclusive
	Waits   bool      // who does not get the lock waits for it
	Renews  bool      // a holder may renew, once
	Async   bool      // releases are not awaited: a process may end behind one, and its next call for the key comes behind it, on the same connection or when its reply has come
	Stays   bool      // a lock stays taken for a while after it was acquired, as MinHold says
	Do      bool      // the calls are those of Do: each is answered by what another one has made while it waited, or makes an answer
	Notes   bool      // with Do: a holder notes that its work begins, as Uncertain says, and an answer is kept for whoever comes
	Fails   bool      // with Notes, or under a ticket: work may fail
	Again   int       // with Notes: how often an operator may say that work is to be done again, which was begun
	Roles   []Role    // of the claims, in turn; none: no lock is handed on to a ticket
	Leaves  int       // how many callers may leave
	Faults  int       // at most, one after the other
	May     []Fault   // which
	Scripts []Scripts // of each Locker, in turn: two versions side by side
	Hole    Hole      // what is done wrong on purpose
}

// A Kind is what a claim wants, as scripts are told it.
type Kind string

// The kinds that are looked at.
const (
	Exclusive Kind = ""
	Shared    Kind = "s"
	Permit    Kind = "p2" // one of two
)

// A Role is what a claim has to do with the ticket, of which there is one.
type Role uint8

// The roles.
const (
	Plain   Role = iota // nothing
	Issues              // its release hands the lock on to the ticket
	Resumes             // it goes on with the work by the ticket, in the place of asking for the lock
)

// A Fault is what may go wrong.
type Fault uint8

const (
	LoseReply   Fault = iota // a command's caller has no reply; the command may be carried out later, or never
	LoseMessage              // a message to a Locker is lost
	Crash                    // a process ends
	Deafen                   // a subscription breaks, and comes back at any time
	Delete                   // another program deletes the lock
	Forget                   // Redis forgets everything
	Force                    // an operator releases the lock by force
	SetBack                  // the server's clock is set back by a second
	MoveSlot                 // a Cluster begins to move the lock's slot, which ends at any time (moving.go)
)

var faultNames = [...]string{"no reply", "message lost", "crash", "subscription breaks", "foreign DEL", "Redis forgets", "release by force", "clock set back by 1 s", "slot moved"}

// String names the fault.
func (f Fault) String() string { return faultNames[f] }

// A Hole is a mistake of a Locker's, made on purpose to see that it is found.
type Hole uint8

const (
	NoHole        Hole = iota
	LocalFence         // the fence is taken from the client's estimate of the clock
	FromReply          // validity counts from when the reply came
	NoCleanUp          // a call that gives up leaves what it may have
	EarlyCleanUp       // what was not answered is removed once, whatever may still be under way
	NoLook             // a lock that SET has taken is held without a look at the queue
	NoAsking           // a waiter only listens, and never asks again
	GiveFirst          // a release that is not awaited begins with the short script, which may do nothing
	NoSettling         // a call does not wait for the reply to a release of its own process
	NoConfirming       // work begins when its intent was sent
	NoTakingBack       // a lock is given back as any other where it is in doubt whether the work was noted
	IntentStays        // an intent in doubt stays where the lock was lost meanwhile
	AnyAnswer          // whoever finds an answer behind a release that found nothing takes it for its own
	StayForgotten      // a message that comes late, of a lock that only stays, counts as that of a grant that nobody wants
	StayCutShort       // what a release without a reply may have left is removed at once, also where it is to stay
	TicketStays        // a release of which it is not known whether it has handed the lock on leaves the ticket
	OwnOrder           // each second process takes its keys in the opposite order
	Circle             // the same, and only what comes of it is looked at
	PartStays          // a call that gives up keeps the keys that it has
	OthersUnseen       // a Locker takes no note of who waits elsewhere
	PassesOn           // a lock passes on within a process for as long as anybody there waits
	EachReleases       // a lease whose lock passes on is released in Redis as well
	KeepsPlace         // who is granted the lock while a slot moves keeps its place in the queue
	HalfSet            // a lock that SET has taken is held although the server has refused what is behind the SET
	AllStays           // what a command for all keys may have left is removed only of those keys that were asked for one by one, too
	BringsNobody       // who asks for the last time leaves the next one of its Locker without a place
	LeavesInAll        // a caller that leaves while a command for all keys is under way takes that for one that asks for the first key alone
)

// Smallest are sizes that a test can look at in seconds.
var Smallest = []Size{
	{Name: "two take turns", Lockers: 2, Claims: 1, Waits: true},
	{Name: "two that do not wait, a reply is lost", Lockers: 2, Claims: 1, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two that do not wait, the slot moves", Lockers: 2, Claims: 1, Faults: 1, May: []Fault{MoveSlot}},
	{Name: "two calls of one process", Lockers: 1, Claims: 2, Waits: true},
	{Name: "two calls of one process, releases are not awaited", Lockers: 1, Claims: 2, Waits: true, Async: true},
	{Name: "two that do not await releases", Lockers: 2, Claims: 1, Waits: true, Async: true},
	{Name: "a writer and a reader", Lockers: 2, Claims: 1, Waits: true, Kinds: []Kind{Exclusive, Shared}},
	{Name: "two whose lock stays for a while", Lockers: 2, Claims: 1, Waits: true, Stays: true},
	{Name: "two that want one answer", Lockers: 2, Claims: 1, Waits: true, Do: true},
	{Name: "two that note their work", Lockers: 2, Claims: 1, Waits: true, Do: true, Notes: true},
	{Name: "two that want two keys", Lockers: 2, Claims: 2, Keys: 2, Prompt: true, Alike: true, Waits: true},
	{Name: "two that want two keys at once", Lockers: 2, Claims: 2, Keys: 2, AtOnce: true, Prompt: true, Alike: true, Waits: true},
	{Name: "three take turns, and nothing is late", Lockers: 3, Claims: 1, Prompt: true, Alike: true, Waits: true},
	{Name: "two of one process, which rest, and one of another", Lockers: 2, Claims: 2, Absent: 1, Rests: true, NoSet: true, Prompt: true, Waits: true},
	{Name: "a ticket", Lockers: 2, Claims: 1, Waits: true, Renews: true, Fails: true, Roles: []Role{Issues, Resumes}},
	{Name: "a ticket that comes twice", Lockers: 3, Claims: 1, Waits: true, Fails: true, Roles: []Role{Issues, Resumes, Resumes}},
}

// Larger are those that take minutes.
var Larger = []Size{
	{Name: "a ticket, a reply is lost", Lockers: 2, Claims: 1, Waits: true, Renews: true, Fails: true, Roles: []Role{Issues, Resumes}, Faults: 1, May: []Fault{LoseReply}},
	{Name: "a ticket that comes twice, a reply is lost", Lockers: 3, Claims: 1, Waits: true, Roles: []Role{Issues, Resumes, Resumes}, Faults: 1, May: []Fault{LoseReply}},
	{Name: "a ticket that comes twice, a process dies", Lockers: 3, Claims: 1, Waits: true, Renews: true, Roles: []Role{Issues, Resumes, Resumes}, Faults: 1, May: []Fault{Crash}},
	{Name: "a ticket that comes twice, the lock is deleted, forgotten or released by force", Lockers: 3, Claims: 1, Waits: true, Fails: true, Roles: []Role{Issues, Resumes, Resumes}, Faults: 1, May: []Fault{Delete, Forget, Force}},
	{Name: "a ticket, while another waits", Lockers: 3, Claims: 1, Waits: true, Fails: true, Roles: []Role{Issues, Resumes, Plain}},
	{Name: "a ticket, while another waits, a process dies", Lockers: 3, Claims: 1, Waits: true, Roles: []Role{Issues, Resumes, Plain}, Faults: 1, May: []Fault{Crash}},
	{Name: "a ticket, the clock is set back", Lockers: 2, Claims: 1, Waits: true, Renews: true, Fails: true, Roles: []Role{Issues, Resumes}, Faults: 1, May: []Fault{SetBack}},
	{Name: "two renew, whose lock stays for a while", Lockers: 2, Claims: 1, Waits: true, Renews: true, Stays: true},
	{Name: "two whose lock stays for a while, a reply is lost", Lockers: 2, Claims: 1, Waits: true, Stays: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two whose lock stays for a while, a process dies or a message is lost", Lockers: 2, Claims: 1, Waits: true, Stays: true, Faults: 1, May: []Fault{Crash, LoseMessage}},
	{Name: "two whose lock stays for a while, releases are not awaited, a reply is lost", Lockers: 2, Claims: 1, Waits: true, Async: true, Stays: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two renew, one leaves", Lockers: 2, Claims: 1, Waits: true, Renews: true, Leaves: 1},
	{Name: "two renew, a reply is lost", Lockers: 2, Claims: 1, Waits: true, Renews: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two, one leaves, a reply is lost", Lockers: 2, Claims: 1, Waits: true, Leaves: 1, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two renew, messages and subscriptions fail", Lockers: 2, Claims: 1, Waits: true, Renews: true, Faults: 1, May: []Fault{LoseMessage, Deafen}},
	{Name: "two renew, a process dies", Lockers: 2, Claims: 1, Waits: true, Renews: true, Faults: 1, May: []Fault{Crash}},
	{Name: "two, the lock is deleted, forgotten or released by force", Lockers: 2, Claims: 1, Waits: true, Faults: 1, May: []Fault{Delete, Forget, Force}},
	{Name: "two, the clock is set back", Lockers: 2, Claims: 1, Waits: true, Renews: true, Faults: 1, May: []Fault{SetBack}},
	{Name: "two renew, the slot moves", Lockers: 2, Claims: 1, Waits: true, Renews: true, Faults: 1, May: []Fault{MoveSlot}},
	{Name: "two that do not await releases, the slot moves", Lockers: 2, Claims: 1, Waits: true, Async: true, Renews: true, Faults: 1, May: []Fault{MoveSlot}},
	{Name: "three, the slot moves", Lockers: 3, Claims: 1, Prompt: true, Alike: true, Waits: true, Faults: 1, May: []Fault{MoveSlot}},
	{Name: "a writer and a reader, one leaves", Lockers: 2, Claims: 1, Waits: true, Renews: true, Leaves: 1, Kinds: []Kind{Exclusive, Shared}},
	{Name: "two permits, three want one", Lockers: 3, Claims: 1, Waits: true, Kinds: []Kind{Permit}},
	{Name: "two that do not await releases, one leaves, a reply is lost", Lockers: 2, Claims: 1, Waits: true, Async: true, Leaves: 1, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two that do not await releases, a process dies", Lockers: 2, Claims: 1, Waits: true, Async: true, Renews: true, Faults: 1, May: []Fault{Crash}},
	{Name: "two calls of one process, releases are not awaited, a reply is lost", Lockers: 1, Claims: 2, Waits: true, Async: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two that want one answer, one leaves, a reply is lost", Lockers: 2, Claims: 1, Waits: true, Do: true, Leaves: 1, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two that want one answer, a process dies", Lockers: 2, Claims: 1, Waits: true, Do: true, Renews: true, Faults: 1, May: []Fault{Crash}},
	{Name: "two that want one answer, the lock is deleted, forgotten or released by force", Lockers: 2, Claims: 1, Waits: true, Do: true, Faults: 1, May: []Fault{Delete, Forget, Force}},
	{Name: "two that note their work, which may fail, and an operator says once that it is to be done again", Lockers: 2, Claims: 1, Waits: true, Do: true, Notes: true, Fails: true, Again: 1},
	{Name: "two that note their work, a process dies, and an operator says so", Lockers: 2, Claims: 1, Waits: true, Do: true, Notes: true, Again: 1, Faults: 1, May: []Fault{Crash}},
	{Name: "two that note their work, a reply is lost", Lockers: 2, Claims: 1, Waits: true, Do: true, Notes: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two that note their work, one leaves, a message is lost", Lockers: 2, Claims: 1, Waits: true, Do: true, Notes: true, Fails: true, Leaves: 1, Faults: 1, May: []Fault{LoseMessage, Deafen}},
	{Name: "two that note their work, the lock is deleted or released by force", Lockers: 2, Claims: 1, Waits: true, Do: true, Notes: true, Fails: true, Faults: 1, May: []Fault{Delete, Force}},
	{Name: "two that want two keys, by the script, and anything may be late", Lockers: 2, Claims: 2, Keys: 2, NoSet: true, Alike: true, Waits: true},
	{Name: "two that want two keys, a reply is lost", Lockers: 2, Claims: 2, Keys: 2, Prompt: true, Alike: true, Waits: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two that want two keys at once, a reply is lost", Lockers: 2, Claims: 2, Keys: 2, AtOnce: true, Prompt: true, Alike: true, Waits: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two that want two keys at once and do not wait, a reply is lost", Lockers: 2, Claims: 2, Keys: 2, AtOnce: true, Prompt: true, Alike: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two that want two keys at once, one leaves, a process dies or a message is lost", Lockers: 2, Claims: 2, Keys: 2, AtOnce: true, Prompt: true, Alike: true, Waits: true, Leaves: 1, Faults: 1, May: []Fault{Crash, LoseMessage}},
	{Name: "two that want two keys at once, a lock is deleted, forgotten or released by force", Lockers: 2, Claims: 2, Keys: 2, AtOnce: true, Prompt: true, Alike: true, Waits: true, Faults: 1, May: []Fault{Delete, Forget, Force}},
	{Name: "two that want two keys, one leaves, a process dies or a message is lost", Lockers: 2, Claims: 2, Keys: 2, Prompt: true, Alike: true, Waits: true, Leaves: 1, Faults: 1, May: []Fault{Crash, LoseMessage}},
	{Name: "two that want two keys, a lock is deleted, forgotten or released by force", Lockers: 2, Claims: 2, Keys: 2, Prompt: true, Alike: true, Waits: true, Faults: 1, May: []Fault{Delete, Forget, Force}},
	{Name: "three take turns, by the script, and anything may be late", Lockers: 3, Claims: 1, NoSet: true, Alike: true, Waits: true},
	{Name: "three renew, one leaves", Lockers: 3, Claims: 1, Prompt: true, Alike: true, Waits: true, Renews: true, Leaves: 1},
	{Name: "three, a process dies or a message is lost", Lockers: 3, Claims: 1, Prompt: true, Alike: true, Waits: true, Faults: 1, May: []Fault{Crash, LoseMessage}},
	{Name: "three, the lock is deleted, forgotten or released by force", Lockers: 3, Claims: 1, Prompt: true, Alike: true, Waits: true, Faults: 1, May: []Fault{Delete, Forget, Force}},
	{Name: "three, a reply is lost", Lockers: 3, Claims: 1, Prompt: true, Alike: true, Waits: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two of one process, which rest, and one of another, by SET", Lockers: 2, Claims: 2, Absent: 1, Rests: true, Prompt: true, Waits: true},
	{Name: "two of one process, which rest and renew, and one of another", Lockers: 2, Claims: 2, Absent: 1, Rests: true, NoSet: true, Prompt: true, Waits: true, Renews: true},
	{Name: "two of one process, which rest, and one of another, one leaves", Lockers: 2, Claims: 2, Absent: 1, Rests: true, NoSet: true, Prompt: true, Waits: true, Leaves: 1},
	{Name: "two of one process, which rest, one leaves, a reply is lost", Lockers: 1, Claims: 2, Rests: true, Waits: true, Leaves: 1, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two of one process, which rest, a reply is lost", Lockers: 1, Claims: 2, Rests: true, Waits: true, Faults: 1, May: []Fault{LoseReply}},
	{Name: "two of one process, which rest, and one of another, messages and subscriptions fail", Lockers: 2, Claims: 2, Absent: 1, Rests: true, NoSet: true, Prompt: true, Waits: true, Faults: 1, May: []Fault{LoseMessage, Deafen}},
	{Name: "two of one process, which rest, and one of another, a process dies", Lockers: 2, Claims: 2, Absent: 1, Rests: true, NoSet: true, Prompt: true, Waits: true, Faults: 1, May: []Fault{Crash}},
	{Name: "two of one process, which rest, and one of another, the lock is deleted, forgotten or released by force", Lockers: 2, Claims: 2, Absent: 1, Rests: true, NoSet: true, Prompt: true, Waits: true, Faults: 1, May: []Fault{Delete, Forget, Force}},
	{Name: "two of one process, which rest, and one of another, the clock is set back", Lockers: 2, Claims: 2, Absent: 1, Rests: true, NoSet: true, Prompt: true, Waits: true, Faults: 1, May: []Fault{SetBack}},
}

// Largest are those of which all states are too many for a machine's memory. They are looked at only when they are named, and in part.
var Largest = []Size{
	{Name: "three take turns by SET, and anything may be late", Lockers: 3, Claims: 1, Alike: true, Waits: true},
	{Name: "two calls in each of two processes, which rest", Lockers: 2, Claims: 2, Rests: true, NoSet: true, Prompt: true, Alike: true, Waits: true},
	{Name: "two calls in each of two processes, which rest, one leaves", Lockers: 2, Claims: 2, Rests: true, NoSet: true, Prompt: true, Alike: true, Waits: true, Leaves: 1},
	{Name: "two calls in each of two processes, none of which rests", Lockers: 2, Claims: 2, Prompt: true, Alike: true, Waits: true},
	{Name: "two of one process, which rest, and one of another, a reply is lost", Lockers: 2, Claims: 2, Absent: 1, Rests: true, NoSet: true, Prompt: true, Waits: true, Faults: 1, May: []Fault{LoseReply}},
}

// possible returns why a size cannot be looked at. Some fields do not go together: where a part of the state is not renamed with its Locker, two
// states would be taken for one that are not, and where a step does not know a field, its property would hold because nobody looks.
func (z *Size) possible() error {
	withKeys, moves := z.locks() > 1, slices.Contains(z.May, MoveSlot)
	for _, one := range []struct {
		is   bool
		says string
	}{
		{z.claims() < 1 || z.Lockers > mostLockers || z.claims() > mostClaims || z.locks() > mostLocks, "too few or too many Lockers, claims or keys"},
		{withKeys && z.Claims%z.Keys != 0, "the claims of a Locker are no whole calls: each has a claim for each key"},
		{z.AtOnce && z.Keys != 2, "AtOnce is the command for two keys"},
		{withKeys && (len(z.Kinds) > 0 || z.Do || len(z.Roles) > 0 || z.Stays || z.Async || z.Rests), "calls for several keys are exclusive, await their releases, and nothing else"},
		{z.Rests && (len(z.Kinds) > 0 || z.Do || len(z.Roles) > 0 || z.Stays || z.Async), "claims that rest are exclusive, await their releases, and nothing else"},
		{moves && (withKeys || z.Rests || z.Do || len(z.Roles) > 0), "the form of the commands that concerns one key knows no second key, no claims that rest, no answers and no ticket"},
		{z.Alike && (len(z.Kinds) > 1 || len(z.Roles) > 0), "Lockers that want different things are not alike"},
		{z.Alike && (z.Do || z.Stays), "whose an answer is, or a lock that stays, is not renamed with its Locker"},
		{z.Alike && (z.Hole == OwnOrder || z.Hole == Circle), "Lockers of which each second one takes its keys in another order are not alike"},
		{z.Notes && !z.Do, "Notes goes with Do"},
		{z.Again > 0 && !z.Notes, "Again goes with Notes"},
	} {
		if one.is {
			return errors.New(one.says)
		}
	}
	return nil
}

// claims is how many claims there are.
func (z *Size) claims() int { return z.Lockers * z.Claims }

// of returns the Locker of a claim.
func (z *Size) of(claim uint8) uint8 { return claim / uint8(z.Claims) }

// scripts returns those of a claim's Locker.
func (z *Size) scripts(claim uint8) Scripts { return z.Scripts[int(z.of(claim))%len(z.Scripts)] }

// locks is how many locks there are.
func (z *Size) locks() int { return max(z.Keys, 1) }

// lock returns the lock that a claim is about.
func (z *Size) lock(claim uint8) uint8 { return claim % uint8(z.locks()) }

// token returns a claim's token.
func (z *Size) token(claim uint8) string {
	return string([]byte{'A' + z.of(claim), '.', '0' + claim%uint8(z.Claims)})
}

// claimBy returns the claim that has a token.
func (z *Size) claimBy(token string) uint8 {
	return (token[0]-'A')*uint8(z.Claims) + token[2] - '0'
}

// kind returns what a claim wants.
func (z *Size) kind(claim uint8) Kind {
	if len(z.Kinds) == 0 {
		return Exclusive
	}
	return z.Kinds[int(claim)%len(z.Kinds)]
}

// role returns what a claim has to do with the ticket.
func (z *Size) role(claim uint8) Role {
	if len(z.Roles) == 0 {
		return Plain
	}
	return z.Roles[int(claim)%len(z.Roles)]
}

// terms returns what a claim asks for.
func (z *Size) terms(claim uint8) string {
	if k := z.kind(claim); k != Exclusive {
		return ms + ":" + string(k) + ":"
	}
	return ms
}
