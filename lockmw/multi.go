package lockmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/retry"
	"github.com/lockmw/kit/internal/store"
)

// AcquireAll takes the locks of all keys, or none. It returns one lease for them, which
// ends when one of the locks is lost. The keys are sorted and their duplicates removed.
// So callers that name the same keys in different orders never wait for each other in a
// circle. If nobody else wants any of the keys, they are taken in one round trip, on one
// server without WithReplicaAcks. Otherwise they are taken one after the other, each in
// its own queue. Wait and Retries bound the wait for all of them together. MaxHold and
// MinHold count from when all are held. Release gives all of them back at the same time.
//
// The context is the lease's, as with Acquire. The errors are those of Acquire, and the
// AcquireError names the key that could not be had. Without any key the error Is
// ErrInvalidPolicy. If a lock is lost while others are still waited for, the error Is
// ErrUnavailable. With FailOpen each key is asked for by itself, so the work may run with
// the locks of some keys and without those of others.
func (l *Locker) AcquireAll(ctx context.Context, keys []string, p Policy) (context.Context, *Lease, error) {
	lease, err := l.acquireAll(ctx, keys, p)
	return under(ctx, lease, err)
}

// acquireAll is AcquireAll, but for the context.
func (l *Locker) acquireAll(ctx context.Context, keys []string, p Policy) (*Lease, error) {
	off := l.adjust(&p, forAcquire)
	start, retries := time.Now(), new(retry.Intervals)
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	switch len(sorted) {
	case 0:
		c := l.newClaim(ctx, "", p, start, nil)
		return nil, c.refused(fmt.Errorf("%w: AcquireAll without keys", ErrInvalidPolicy))
	case 1:
		return l.acquireAs(ctx, sorted[0], p, off)
	}
	if p.Shadow && !off {
		return l.acquireShadow(ctx, p, sorted...)
	}
	if err := l.Validate(p); err != nil { // before MinHold and MaxHold are taken out
		c := l.newClaim(ctx, sorted[0], p, start, nil)
		return nil, c.refused(err)
	}
	each := p
	each.MinHold, each.MaxHold = 0, 0
	all := &bundle{locker: l}
	var claims []*claim
	var counts *claim // the last that joins no lease: those that do have no events
	joins := false
	for _, key := range sorted {
		c := l.newClaim(ctx, key, each, start, retries)
		c.off = off
		outer, err := c.check()
		if err != nil {
			return nil, c.refused(err)
		}
		joins = joins || outer != nil
		if outer == nil {
			counts = &c
		}
		claims = append(claims, &c)
	}
	for _, c := range claims {
		c.part = c != counts
	}
	returned := false
	defer func() {
		if !returned { // the caller's context has panicked, or an observer has ended the goroutine: nobody gets the parts
			all.releaseTogether(ctx)
			all.tellReleased()
		}
	}()
	failed, err := all.take(ctx, claims, !joins && !off)
	if err != nil {
		all.releaseSoon(ctx) // failures are logged; what was lost is in err
		failed.tell(nil)
		returned = true
		return nil, err
	}
	last := claims[len(claims)-1]
	last.ctx, last.policy = all.parts[len(all.parts)-1].ctx, p.withDefaults()
	whole := newLease(last, all, new(sync.Mutex), 0, time.Now())
	whole.ref = store.Ref{Key: all.keys()}
	for _, owner := range all.owners() {
		owner.stay(whole, p.MinHold)
	}
	for _, part := range all.parts {
		part.mu.Lock()
		if part.state == held {
			part.limit(p.MaxHold)
		}
		part.mu.Unlock()
	}
	returned = true
	return whole, nil
}

// take makes the claims' leases its parts. The context of each comes from the
// one before, so all end with the first that is lost, and so does the wait for
// the rest. together says that no claim joins a lease, so that all can be asked
// for in one step. After an error there may be some parts; failed is the claim
// whose part is missing, and the observers are not told of it yet. They are told
// of the parts as those come, but not while a command for several keys may have left
// something: until that is had, or about to be removed, Close waits for the call, and it
// is not to wait for an observer.
//
// After a part has failed open the others are asked for all the same, because Redis
// may be back, but for a shorter time.
func (b *bundle) take(ctx context.Context, claims []*claim, together bool) (failed *claim, err error) {
	told := 0
	defer func() { // also where the caller's context has panicked
		for _, c := range claims[len(b.parts):] {
			c.withdraw() // what a command for all of them may have left
		}
		b.tellTaken(claims, &told)
	}()
	for len(b.parts) < len(claims) {
		done, rest := false, claims[len(b.parts):]
		if together && (len(b.parts) == 0 || b.cutOff()) {
			done, err = b.takeTogether(rest)
		}
		if !done {
			err = b.takeNext(rest[0])
		}
		rest = claims[len(b.parts):]
		if err != nil {
			return rest[0], rest[0].refuse(b.lostMeanwhile(ctx, err))
		}
		if !slices.ContainsFunc(rest, (*claim).mayHaveLeft) {
			b.tellTaken(claims, &told)
		}
	}
	return nil, nil
}

// tellTaken tells the observers of the parts of which they have not been told. Nothing may be left of a command for several keys
// by then, so Close need not wait for the call any more, and does not wait for an observer.
func (b *bundle) tellTaken(claims []*claim, told *int) {
	if b.countedBy != nil {
		b.countedBy.calls.Done()
		b.countedBy = nil
	}
	for *told < len(b.parts) {
		i := *told
		*told++ // first: an observer may end the goroutine
		claims[i].tell(b.parts[i])
	}
}

// lostMeanwhile returns why a part could not be had, in the place of err: a part before it was lost. That its lease has ended
// for another reason, as by Close, is in err.
func (b *bundle) lostMeanwhile(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return err
	}
	for _, part := range b.parts {
		if !part.Valid() && part.owner().holds(lost) {
			err = fmt.Errorf("%w: %q was lost while the others were waited for", ErrUnavailable, part.Key())
		}
	}
	return err
}

// cutOff reports whether the last part runs without its lock: Redis did not answer just
// now.
func (b *bundle) cutOff() bool {
	n := len(b.parts)
	return n > 0 && b.parts[n-1].runsWithout()
}

// follow has c's lease end with the part before it.
func (b *bundle) follow(c *claim) {
	if len(b.parts) == 0 {
		return
	}
	c.ctx = b.parts[len(b.parts)-1].ctx
	if b.cutOff() {
		c.longest = leastTimeout
	} else {
		c.reached = true
	}
}

// takeNext makes one claim's lease a part. The first claim is tried in any case, as
// Acquire does; the others, unless the budget of all is used up by then.
func (b *bundle) takeNext(c *claim) error {
	b.follow(c)
	if wait := c.policy.Wait; len(b.parts) > 0 && !b.cutOff() && wait > 0 && c.waited() >= wait {
		return fmt.Errorf("%w: the wait was over before its turn came", ErrNotAcquired)
	}
	part, err := c.try()
	b.queued = b.queued || !c.queuedAt.IsZero()
	if err == nil {
		b.parts = append(b.parts, part)
	}
	return err
}

// takeTogether asks for the locks of all claims in one step, and makes their
// leases parts. done is false where the store cannot do that, where not all can be
// had, and where there was no answer but the policy allows to wait for one: then
// each claim is to ask by itself, with the token that it has been given, since the
// command for all may have been granted. err is why the next part is missing.
func (b *bundle) takeTogether(claims []*claim) (done bool, err error) {
	if !b.locker.store.TakesSeveral() {
		return false, nil
	}
	for _, c := range claims {
		if c.ref.Token == "" { // otherwise it has been asked for before, and may have been granted
			c.writeNote()
		}
	}
	first := claims[0]
	if !first.enter() {
		return false, nil
	}
	entered := first.ledger
	defer func() {
		if b.countedBy == nil && slices.ContainsFunc(claims, (*claim).mayHaveLeft) {
			b.countedBy = entered
		} else {
			entered.calls.Done()
		}
	}()
	for _, c := range claims {
		c.ledger = entered // together they are one call
	}
	b.locker.checkOnce.Do(b.locker.checkServer)
	b.follow(first)
	grants, fault := first.askTogether(claims)
	var end func(i int, c *claim) (*Lease, error)
	switch {
	case grants != nil:
		end = func(i int, c *claim) (*Lease, error) { return c.grantedTogether(grants[i]) }
	case fault != nil && (b.cutOff() || !first.policy.waits()):
		end = func(_ int, c *claim) (*Lease, error) {
			c.withdraw()
			return c.endUnanswered(fault)
		}
	default:
		return false, nil
	}
	for i, c := range claims {
		b.follow(c)
		part, err := end(i, c)
		if err != nil {
			return true, err
		}
		b.parts = append(b.parts, part)
	}
	return true, nil
}

// grantedTogether makes a lease of a grant. Where the grant came too late for that,
// the claim asks by itself if its policy waits.
func (c *claim) grantedTogether(g grant) (*Lease, error) {
	if o := c.granted(g, time.Now(), nil); o.ends() {
		return o.lease, o.err
	}
	if c.policy.waits() {
		c.withdraw()
		c.ref.Token = ""
		return c.run()
	}
	return c.unavailable()
}

// endUnanswered ends a claim that was asked for with others, without an answer, as if
// it had been alone.
func (c *claim) endUnanswered(fault *store.Error) (*Lease, error) {
	if err := c.endedBy(fault); err != nil {
		return nil, err
	}
	return c.unavailable()
}

// askTogether asks for the locks of all claims in one step; c is the first. It
// returns their grants, or nil where not all can be had, and what kept the
// command from an answer. A command that met a connection which the server had
// closed is sent once more, as in run. The claims know what it may have left.
func (c *claim) askTogether(claims []*claim) ([]grant, *store.Error) {
	l := c.locker
	refs := make([]store.Ref, len(claims))
	for i, each := range claims {
		if each.ref.Token == "" {
			each.ref.Token = each.newToken()
		}
		refs[i] = each.ref
	}
	known := true
	defer lostTrack(&known, claims)
	for again := false; ; again = true {
		before := c.residue
		sent := now()
		known = false
		command := c.counts() // as in send
		left := c.timeout()
		if again {
			left = c.onceMore()
		}
		fences, err := l.store.AcquireAll(c.ctx, refs, time.Now().Add(left), func(granted bool, err error) {
			defer command.over()
			after := before.answered(granted)
			if err != nil {
				after = before.unanswered(store.AsError(err))
			}
			for _, ref := range refs {
				l.remove(ref, after)
			}
		})
		known = true
		if err == nil {
			command.over()
			for _, each := range claims {
				each.reached = true // it does not say which of the keys is taken
			}
			if fences == nil {
				return nil, nil
			}
			return togetherSince(sent, claims, fences), nil
		}
		c.sent++
		fault := store.AsError(err)
		if fault.Pending { // whatever comes of it is cleaned up then
			for _, each := range claims {
				each.residue = noResidue
			}
			return nil, fault
		}
		command.over()
		for _, each := range claims {
			each.residue = each.residue.unanswered(fault)
		}
		if !fault.Stale || again {
			return nil, fault
		}
	}
}

// lostTrack is claim.lostTrack of all, unless what became of their command is known.
func lostTrack(known *bool, claims []*claim) {
	if *known {
		return
	}
	for _, c := range claims {
		c.lostTrack()
	}
}

// togetherSince returns the grants that answer a command which was sent at sent.
func togetherSince(sent instant, claims []*claim, fences []int64) []grant {
	grants := make([]grant, len(claims))
	for i, c := range claims {
		c.sent++
		c.residue = max(c.residue, certain)
		grants[i] = grant{Grant: store.Grant{Fence: fences[i]}, promise: promise{sent, c.ref.TTL}}
	}
	return grants
}

// soon is how long a call that failed waits until what it had is given back: longer
// than a round trip to a server far away, and shorter than a caller notices.
const soon = 100 * time.Millisecond

// releaseSoon gives back the parts and tells the observers. Where Redis does not
// answer soon, that goes on when it has returned, and Close waits for it.
func (b *bundle) releaseSoon(ctx context.Context) {
	if len(b.parts) == 0 {
		return
	}
	counted := b.locker.enter(b.parts[0].ref.Key)
	if counted == nil {
		b.releaseTogether(ctx)
		b.tellReleased()
		return
	}
	var parted atomic.Bool
	released := make(chan struct{})
	go func() {
		defer counted.calls.Done()
		b.releaseTogether(ctx)
		if parted.Swap(true) {
			b.locker.reports.Later(b.tellReleased)
		}
		close(released)
	}()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-released:
	case <-timer.C:
		if !parted.Swap(true) {
			return
		}
		<-released
	}
	b.tellReleased()
}
