package lockmw

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/retry"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// One call of Acquire is a claim. It goes this way, from top to bottom of this file:
//
//   - acquire finds the mistakes that need no command (check), or the lease of the caller's own that the claim joins;
//   - run has a claim whose policy lets it wait join the queue of the Locker's waiters, and sends the first command, unless
//     a lease or another waiter of the Locker sees to its turn, or Redis cannot be reached. Most claims end with the reply: Redis has granted the lock, or others hold it and the
//     policy does not wait;
//   - otherwise wait (wait.go) goes on: for a grant, or until the claim has to ask again;
//   - end.go makes a lease of the grant, or removes what a claim that gets none has left in Redis. outage.go has what becomes
//     of a claim whose command gets no answer, or whose Redis cannot be reached.
//
// Each step returns an outcome: the claim's end, or why it goes on.

// Acquire takes the lock of p.Prefix+key and returns a lease for it. The Locker
// renews the lock, after about a third of the TTL each time, until the lease is
// released.
//
// Work under the lock uses the context that Acquire returns, which is the lease's:
// it ends before the lock can pass to somebody else, FromContext finds the lease in
// it, and a nested Acquire of the same key knows that the key is held. So callers
// assign it to the variable that ctx came from. After an error it is ctx itself, and
// the lease is nil.
//
// It waits as p says, in the order in which callers came, over all processes.
// ctx bounds the wait and is the parent of the lease's context. Its end does not
// release the lease: Release does. key is 1 to 512 bytes without braces and control
// characters.
//
// The error is an *AcquireError and Is one of ErrNotAcquired, ErrQueueFull,
// ErrUnavailable, ErrInvalidKey, ErrInvalidPolicy, ErrReentrant and
// ErrClosed. When ctx ended the wait, it Is ErrNotAcquired and ctx's error
// (ErrUnavailable, if Redis had not answered for 250 ms at ctx's deadline), and
// Acquire returns at once. After an error nothing stays in Redis, or it
// is removed in the background within moments.
//
// Once Redis has been out of reach for a second, calls are refused with ErrUnavailable
// within 250 ms, and so are those that wait already, however long they might still wait.
// The second begins with the first command of the Locker that finds nobody there or gets
// no answer; if all its calls wait, that may be up to 800 ms after Redis went away. A
// policy with Retries: Forever and no Wait goes on waiting until Redis is back, and one
// with FailOpen runs without the lock, see there. A call that may wait that long waits
// through a shorter outage, such as a restart.
func (l *Locker) Acquire(ctx context.Context, key string, p Policy) (context.Context, *Lease, error) {
	lease, err := l.acquire(ctx, key, p)
	return under(ctx, lease, err)
}

// under returns what Acquire does, for a lease that was asked for with ctx.
func under(ctx context.Context, lease *Lease, err error) (context.Context, *Lease, error) {
	if err != nil {
		return ctx, nil, err
	}
	return lease.Context(), lease, nil
}

// acquire is Acquire, but for the context.
func (l *Locker) acquire(ctx context.Context, key string, p Policy) (*Lease, error) {
	c := l.newClaim(ctx, key, p, time.Now(), nil)
	lease, err := c.acquire()
	c.tell(lease)
	return lease, err
}

// A claim is one call of Acquire: what is asked for, how far the call has come, and what it knows of the lock. It belongs to
// the goroutine of that call.
type claim struct {
	// What is asked for, and by whom.
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
	once     bool             // a call of Locker.Once: that others have the job's lock is no refusal for operators

	// The wait.
	waiter   *waitqueue.Waiter // the claim's place in the queue of this Locker; nil: it may not wait, or has ended its wait
	queuedAt time.Time         // the begin of the wait for its turn; zero: it did not wait
	heldBack bool              // a command is due, and not sent until Redis can be reached again

	// Its commands.
	attempts    int           // how many it has sent
	lastTimeout time.Duration // the time that the last one had for its reply
	residue     residue       // what they may have left in the store
	fault       *store.Error  // why the last one got no usable answer; nil: it got one, or none was sent

	// What it knows by the answers.
	answers     int           // how many of its own commands were answered
	reached     bool          // of several keys: Redis has answered a command about all of them, or about another one
	ballot      *store.Ballot // the votes of a quorum's nodes on the last command; nil: they granted it, or there is no quorum
	seen        sighting      // who holds the lock, by the last answer
	holderLeft  time.Duration // what was left of the holder's TTL, by the last answer or the Locker's own tenure
	alsoWaiting int           // how many others wait for the lock, as far as is known

	// What becomes of it.
	refusal   *AcquireError
	events    []Event // what the observers are told at its end, see tell
	contended bool    // whether the observers were told that it waits
}

// newClaim returns a claim that began at start: the claim itself, which then costs its
// caller no allocation. Several claims that have one budget share start and retries.
func (l *Locker) newClaim(ctx context.Context, key string, p Policy, start time.Time, retries *retry.Intervals) claim {
	c := claim{locker: l, ctx: ctx, key: key, given: p, policy: p.withDefaults(), start: start, retries: retries, longest: opTimeout}
	c.ref = c.policy.ref(key)
	return c
}

// acquire is Locker.Acquire, but for what the observers are told, see tell.
func (c *claim) acquire() (*Lease, error) {
	l := c.locker
	outer, err := c.check()
	if err != nil {
		return nil, c.refuse(err)
	}
	if outer != nil {
		return outer.join(c), nil
	}
	c.writeNote()
	if !c.enter() {
		return nil, c.refuse(ErrClosed)
	}
	defer c.ledger.claims.Done()
	l.checkOnce.Do(l.checkServer)

	lease, err := c.run()
	if err != nil {
		return nil, c.refuse(err)
	}
	return lease, nil
}

// check finds the mistakes that need no command to Redis, and the lease that
// the claim joins, if there is one.
func (c *claim) check() (outer *Lease, err error) {
	if err := c.locker.Validate(c.given); err != nil {
		return nil, err
	}
	if err := validateKey(c.key); err != nil {
		return nil, err
	}
	if outer = c.locker.heldBy(c.ctx, c.ref.Key); outer != nil && (!c.given.Reentrant || !outer.covers(c.ref.Kind)) {
		c.seen = sightingOf(outer)
		return nil, ErrReentrant
	}
	if c.ctx.Err() != nil {
		return nil, c.gaveUp()
	}
	return outer, nil
}

// run has the claim's life: its first command, if it needs one now, and the wait if that is allowed.
func (c *claim) run() (*Lease, error) {
	p := c.glance()
	how := c.outlook(p)
	if how == opens || how == refuses {
		return c.unreachable(p)
	}
	join, place := store.Try, store.Place{}
	if c.policy.waits() {
		if joined := c.locker.waiters.Join(c.ref, waitqueue.Caller{Name: c.policy.Name, Note: c.noteText}, how != holdsBack); joined.Waiter != nil {
			c.waiter, join = joined.Waiter, store.Wait
			c.locker.subscriber.start()
			defer func() {
				if c.waiter != nil { // nothing below has ended: the store has panicked
					c.withdraw()
				}
			}()
			if joined.Rests {
				c.holderLeft = remains(tenureOf(joined.Holder))
				return c.wait(waitqueue.View{State: waitqueue.Resting})
			}
			c.noteToken(joined.Token)
			place.Behind = joined.Behind
			if how == holdsBack {
				c.heldBack = true
				return c.wait(c.locker.waiters.Look(c.waiter))
			}
		}
	}
	if c.ref.Token == "" { // otherwise its waiter has one, or it has asked together with others (multi.go)
		c.ref.Token = c.newToken()
	}
	o := c.send(join, place)
	if o.why == noAnswer && c.fault.Stale {
		// The server had closed the connection, as it does when it restarts.
		o = c.ask(join)
	}
	switch {
	case o.ends():
		return o.lease, o.err
	case c.waiter != nil:
		return c.wait(c.locker.waiters.Look(c.waiter))
	case o.why != lockHeld:
		return c.unavailable()
	}
	if c.residue == inDoubt {
		c.withdraw() // the first of two commands may yet be carried out
	}
	c.alsoWaiting = c.seen.waiting + c.locker.waiters.Resting(c.ref.Key)
	if c.policy.waits() { // Join had no room
		return nil, ErrQueueFull
	}
	return nil, errHeld
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

// ask sends a command: for a claim that waits, or again after a connection that the server had closed.
func (c *claim) ask(join store.Join) outcome {
	var place store.Place
	if c.waiter != nil {
		token, its, ok := c.locker.waiters.Ask(c.waiter)
		if !ok {
			return goesOn(grantWaits)
		}
		c.noteToken(token)
		place = its
		if c.queuedAt.IsZero() { // its first command: it has not waited before
			place.Waited = 0
		}
	}
	return c.send(join, place)
}

// send sends one command. Where the claim has a waiter, its queue knows already that a command is under way.
func (c *claim) send(join store.Join, place store.Place) outcome {
	l := c.locker
	ref := c.ref
	asked := time.Now()
	c.attempts++
	session := l.subscriber.session()
	c.lastTimeout = c.timeout()
	before, recovered := c.residue, c.fault != nil || c.heldBack
	c.heldBack = false
	claims := &c.ledger.claims
	claims.Add(1) // Close waits for the command, also when its caller has left
	answer, err := l.store.Acquire(c.ctx, store.Request{
		Ref: ref, Join: join, Place: place, Timeout: c.lastTimeout, Again: c.answers > 0 || before != noResidue || recovered,
		Late: func(a store.Answer, err error) {
			defer claims.Done()
			if err != nil {
				l.remove(ref, before.unanswered(store.AsError(err)))
			} else {
				l.remove(ref, before.answered(a.Granted || join == store.Wait))
			}
		},
	})
	if err != nil {
		fault := store.AsError(err)
		c.ballot = fault.Ballot
		if !fault.Pending {
			claims.Done()
		}
		if err := c.failed(fault); err != nil {
			return ended(nil, err)
		}
		return goesOn(noAnswer)
	}
	answered := time.Now()
	claims.Done()
	c.fault, c.ballot = nil, answer.Ballot
	c.answers++
	c.residue = before.answered(answer.Granted || join == store.Wait)
	for sibling := range strings.FieldsSeq(answer.Siblings) {
		l.waiters.AskAgain(ref.Key, sibling) // if it waits, its grant's message was lost
	}
	own := waitqueue.Answer{Sent: asked, Clock: answer.Server}
	if answer.Granted {
		if answer.Unqueued {
			session = 0 // nobody will tell who waits, so the lock is not passed on here
		}
		g := grant{
			fence: answer.Fence, clock: answer.Server, taken: answer.Taken, since: instantOf(asked), ttl: ref.TTL,
			session: session, nextCame: answer.NextCame,
		}
		return c.granted(g, answered, &own)
	}
	c.holderLeft, c.seen = answer.Left, newSighting(answer)
	c.freshToken()
	if c.waiter == nil {
		return goesOn(lockHeld)
	}
	own.Seen, own.Queued = c.seen, join == store.Wait && answer.Ballot == nil // a quorum has no queue
	first := l.waiters.Answered(c.waiter, own)
	if join == store.Wait && (answer.Fresh || recovered && first) {
		// The store did not know the queue, or had forgotten it when a
		// command came through whose answer did not.
		l.waiters.AskOthers(c.waiter)
	}
	return goesOn(lockHeld)
}

// freshToken changes the token after an attempt at a quorum that failed: what
// it left is being taken back, by token, and that may arrive late.
func (c *claim) freshToken() {
	if c.ballot != nil {
		c.ref.Token, c.residue = c.newToken(), noResidue
	}
}

const (
	// opTimeout bounds one command. A Redis that takes longer is no use for
	// locks, and what came of the command is cleaned up.
	opTimeout = time.Second

	// leastTimeout is what a command gets at least, when the policy's budget
	// is nearly used up or smaller than that.
	leastTimeout = outage.SilentAfter
)

// timeout bounds the next command by what is left of the policy's budget.
func (c *claim) timeout() time.Duration {
	p, left := c.policy, c.longest
	if p.Wait > 0 {
		left = min(left, p.Wait-c.waited())
	}
	if p.Retries > 0 && p.Retries < int(opTimeout/p.RetryInterval) {
		left = min(left, 2*p.RetryInterval*time.Duration(p.Retries)-c.waited())
	}
	if p.FailOpen {
		left = min(left, p.opensAfter())
	}
	if known := c.glance(); known.Reach == outage.Suspected {
		left = min(left, outage.AwayAfter-known.Age)
	}
	return max(left, leastTimeout)
}

// enter counts the claim in, unless the Locker is closed.
func (c *claim) enter() bool {
	c.ledger = c.locker.enter(c.ref.Key)
	return c.ledger != nil
}

// writeNote asks the program for the claim's note.
func (c *claim) writeNote() {
	if c.locker.note != nil {
		c.noteText = c.locker.note(c.ctx)
	}
}

func (c *claim) newToken() string { return c.locker.store.NewToken(c.noteText) }

// noteToken notes the token by which the store knows the claim, or may do so.
func (c *claim) noteToken(token string) {
	if c.ref.Token == "" {
		c.ref.Token = token
	}
}

// errHeld: the one attempt found the lock held.
var errHeld = fmt.Errorf("%w: held by others", ErrNotAcquired)
