package lockmw

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/retry"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// What a claim is: the values that acquire.go, wait.go, end.go and outage.go work on.

// A claim is one call of Acquire. It belongs to the goroutine of that call.
type claim struct {
	asked    // what is asked for, and by whom
	attempts // its commands
	known    // what it has learnt of the lock
	told     // what becomes of it, for the caller and for the observers

	waiter   *waitqueue.Waiter // the claim's place in the queue of this Locker; nil: it may not wait, or has ended its wait
	queuedAt time.Time         // the begin of the wait for its turn; zero: it did not wait
	heldBack bool              // a command is due, and not sent until Redis can be reached again
}

// asked is what a claim asks for, and by whom. The token of its ref, the ledger and the note come
// after its begin; of several keys also the context and how long a command may take (multi.go).
type asked struct {
	locker   *Locker
	ctx      context.Context
	key      string           // without the policy's prefix
	given    Policy           // as the caller wrote it
	policy   Policy           // given, with the defaults filled in
	ref      store.Ref        // what is asked for, in the store's words; without a token until the store is asked
	ledger   *ledger          // the one that counts the call until it ends, so that Close waits for it
	noteText string           // the program's note about the call, a part of its token: see WithNote
	start    time.Time        // the begin of the call, from which Policy.Wait counts
	retries  *retry.Intervals // the budget of retries that all claims of an AcquireAll share; nil: the claim has one of its own
	longest  time.Duration    // the longest time that a command may take
	recall   string           // the fingerprint of what Do asks for: a record that answers it will do as well as the lock; empty: Acquire
	work     context.Context  // the parent of the lease's context; nil: ctx
	ticket   *store.Ticket    // by which Resume asks; nil: it is no Resume
	part     bool             // one of several keys of a call, and not the one by which the call is counted
	off      bool             // work runs without the lock, because a live setting says so
	once     bool             // a call of Locker.Once: that others have the job's lock is no refusal for operators
}

// attempts are the commands that a claim has sent, what came of them, and what they may have left.
type attempts struct {
	sent        int           // how many were sent
	lastTimeout time.Duration // the time that the last one had for its reply
	answers     int           // how many were answered
	spent       bool          // by the last answer, the ticket is
	heardIn     uint64        // the subscription's session in which the claim was refused last; 0: there was none
	reached     bool          // of several keys: Redis has answered a command about all of them, or about another one
	residue     residue       // what they may have left in the store
	fault       *store.Error  // why the last one got no usable answer; nil: it got one, or none was sent
	ballot      *store.Ballot // the votes of a quorum's nodes on the last one; nil: they granted it, or there is no quorum
	command     *underway     // the last one; nil: none was sent
}

// An underway is a command of a claim that the ledger counts, so that Close waits for it, also when its caller has left. The store keeps it
// until then. It is not a part of the claim: what the store keeps is allocated, and a claim that sends no command is not to cost that.
type underway struct {
	ledger *ledger
	ended  atomic.Bool
}

// over has the ledger count the command no more: its outcome is known, which may be after the caller has left, or the store has panicked.
// Both may happen.
func (u *underway) over() {
	if u.ended.CompareAndSwap(false, true) {
		u.ledger.calls.Done()
	}
}

// counts has the ledger count a command that is about to be sent, until it is over.
func (c *claim) counts() *underway {
	c.ledger.calls.Add(1)
	c.command = &underway{ledger: c.ledger}
	return c.command
}

// lostTrack notes that the store has panicked, as it does where the caller's context panics: the last command may have been carried out.
func (c *claim) lostTrack() {
	c.residue = max(c.residue, inDoubt)
	if c.command != nil {
		c.command.over()
	}
}

// told is what the caller and the observers are told of a claim.
type told struct {
	refusal   *AcquireError
	events    []Event // what the observers are told at its end, see tell
	contended bool    // whether the observers were told that it waits

	recalled     *store.Recalled // the record that ended the claim in the place of a lease, or nil
	recalledSent time.Time       // when the command was sent that found it
	looked       bool            // the grant came by a command that found no such record
}

// newClaim returns a claim that began at start: the claim itself, which then costs its
// caller no allocation. Several claims that have one budget share start and retries.
func (l *Locker) newClaim(ctx context.Context, key string, p Policy, start time.Time, retries *retry.Intervals) claim {
	c := claim{asked: asked{locker: l, ctx: ctx, key: key, given: p, policy: p.withDefaults(), start: start, retries: retries, longest: opTimeout}}
	c.ref = c.policy.ref(key)
	return c
}

func (a *asked) waited() time.Duration { return time.Since(a.start) }

// prospect returns what is known of the claim's server.
func (a *asked) prospect() outage.Prospect { return a.locker.outage.Prospect(a.ref.Key) }

// glance is prospect, at no cost while all servers can be reached.
func (a *asked) glance() outage.Prospect { return a.locker.outage.Glance(a.ref.Key) }

// timeout bounds the next command by what is left of the policy's budget.
func (a *asked) timeout() time.Duration {
	p, left := a.policy, a.longest
	if p.Wait > 0 {
		left = min(left, p.Wait-a.waited())
	}
	if p.Retries > 0 && p.Retries < int(opTimeout/p.RetryInterval) {
		left = min(left, 2*p.RetryInterval*time.Duration(p.Retries)-a.waited())
	}
	if p.FailOpen {
		left = min(left, p.opensAfter())
	}
	if p := a.glance(); p.Reach == outage.Suspected {
		left = min(left, outage.AwayAfter-p.Age)
	}
	return max(left, leastTimeout)
}

// onceMore bounds a command that is sent again behind a connection that the server had closed, as it does when it restarts, or that hangs. A call that may not
// wait has what is left of its second then, or half of one: enough for a new connection and the command.
func (a *asked) onceMore() time.Duration {
	left := a.timeout()
	if !a.policy.waits() {
		left = min(left, max(opTimeout-a.waited(), opTimeout/2))
	}
	return left
}

// enter counts the claim in, unless the Locker is closed.
func (a *asked) enter() bool {
	a.ledger = a.locker.enter(a.ref.Key)
	return a.ledger != nil
}

// wanted is the record that the claim's commands look for, or nil.
func (a *asked) wanted() *store.Recall {
	if a.recall == "" {
		return nil
	}
	return &store.Recall{Fingerprint: a.recall, Waited: a.waited()}
}

// writeNote asks the program for the claim's note.
func (a *asked) writeNote() {
	if a.locker.note != nil {
		a.noteText = a.locker.note(a.ctx)
	}
}

func (a *asked) newToken() string { return a.locker.store.NewToken(a.noteText) }

// noteToken notes the token by which the store knows the claim, or may do so.
func (a *asked) noteToken(token string) {
	if a.ref.Token == "" {
		a.ref.Token = token
	}
}

// freshToken changes the token after an attempt at a quorum that failed: what
// it left is being taken back, by token, and that may arrive late.
func (c *claim) freshToken() {
	if c.ballot != nil {
		c.ref.Token, c.residue = c.newToken(), noResidue
	}
}

// An outcome is what one step of a claim has come to: its end, with a lease or with an error, or why it goes on.
type outcome struct {
	lease *Lease
	err   error
	why   goingOn
}

// goingOn is why a claim goes on after a step.
type goingOn uint8

const (
	hasEnded     goingOn = iota // it does not go on
	lockHeld                    // others hold the lock, by the store's answer
	noAnswer                    // the command got no answer that could be used, for the reason in claim.fault
	grantWaits                  // it was granted the lock meanwhile: the grant lies in its waiter's Grants
	grantUseless                // a grant was too old, of unknown age or lost, or replicas are to confirm it: asking again mends each
)

func ended(lease *Lease, err error) outcome { return outcome{lease: lease, err: err} }

func goesOn(why goingOn) outcome { return outcome{why: why} }

func (o outcome) ends() bool { return o.why == hasEnded }
