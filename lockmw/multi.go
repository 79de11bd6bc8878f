package lockmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// AcquireAll takes the locks of all keys, or none, and returns one lease for
// them: losing one of the locks ends it. The keys are sorted and their
// duplicates removed, so callers that name the same keys in different orders
// never wait for each other in a circle. Where nobody else wants any of them
// they are taken in one round trip; otherwise one after the other, each in its
// own queue, within the one budget of p. MaxHold and MinHold count from when
// all are held. Release gives them back in reverse order.
//
// The errors are those of Acquire; the AcquireError names the key that could
// not be had, and no key is a policy error. A lock that is lost while others
// are still waited for is ErrUnavailable.
func (l *Locker) AcquireAll(ctx context.Context, keys []string, p Policy) (*Lease, error) {
	start, retries := time.Now(), new(pace)
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	switch len(sorted) {
	case 0:
		return nil, l.newClaim(ctx, "", p, start, nil).refused(fmt.Errorf("%w: AcquireAll without keys", ErrInvalidPolicy))
	case 1:
		return l.Acquire(ctx, sorted[0], p)
	}
	if err := l.Validate(p); err != nil { // before MinHold and MaxHold are taken out
		return nil, l.newClaim(ctx, sorted[0], p, start, nil).refused(err)
	}
	each := p
	each.MinHold, each.MaxHold = 0, 0
	whole := &Lease{locker: l, policy: p.withDefaults()}
	var claims []*claim
	joins := false
	for _, key := range sorted {
		c := l.newClaim(ctx, key, each, start, retries)
		outer, err := c.check()
		if err != nil {
			return nil, c.refused(err)
		}
		joins = joins || outer != nil
		claims = append(claims, c)
	}
	if !l.enter() { // Close waits for all of it
		return nil, claims[0].refused(ErrClosed)
	}
	defer l.claims.Done()
	if err := whole.take(claims, !joins); err != nil {
		return nil, whole.giveUp(ctx, err)
	}
	whole.start = time.Now()
	whole.derive(whole.parts[len(whole.parts)-1].ctx)
	for _, part := range whole.parts {
		part.owner().stay(p.MinHold)
		part.mu.Lock()
		if part.state == held {
			part.limit(p.MaxHold)
		}
		part.mu.Unlock()
	}
	whole.ref.Key = whole.keys()
	return whole, nil
}

// refused is refuse, and tells the observers.
func (c *claim) refused(err error) error {
	err = c.refuse(err)
	c.tell(nil)
	return err
}

// take makes the claims' leases its parts. The context of each comes from the
// one before, so all end with the first that is lost, and so does the wait for
// the rest. After an error there may be some parts. together says that no claim
// joins a lease, so that all can be asked for in one step.
func (l *Lease) take(claims []*claim, together bool) error {
	var grants []grant
	var fault *store.Error
	if together {
		grants, fault = l.locker.takeTogether(claims)
	}
	for i, c := range claims {
		if i > 0 {
			c.ctx = l.parts[i-1].ctx //nolint:fatcontext // see above
		}
		part, err := c.part(grants, i, fault)
		if part != nil && part.open {
			fault = c.fault // nor can the others be had
		}
		if err != nil {
			for _, next := range claims[i+1:] {
				next.giveBack() // what was granted together
			}
			c.tell(nil)
			return err
		}
		l.parts = append(l.parts, part)
		c.tell(part)
	}
	return nil
}

// part makes a lease of the claim's grant, number i of those that were given
// together, or takes its lock by itself. fault is what kept an earlier question
// from an answer: who may not wait does not ask Redis again.
func (c *claim) part(grants []grant, i int, fault *store.Error) (*Lease, error) {
	var lease *Lease
	var err error
	switch {
	case grants != nil:
		lease, err = c.granted(grants[i])
		if lease != nil || err != nil {
			break
		}
		if c.policy.waits() { // it came too late
			c.giveBack()
			return c.acquire()
		}
		lease, err = c.unavailable()
	case fault != nil && (c.policy.FailOpen && i > 0 || !c.policy.waits()):
		c.fault = fault
		lease, err = c.unavailable()
	default:
		return c.acquire()
	}
	if err != nil {
		return nil, c.refuse(err)
	}
	return lease, nil
}

// takeTogether asks for the locks of all claims in one step. It returns nil
// where that is not possible, or not all can be had, and what kept the question
// from an answer.
func (l *Locker) takeTogether(claims []*claim) ([]grant, *store.Error) {
	bundler, ok := l.store.(store.Bundler)
	if !ok {
		return nil, nil
	}
	refs := make([]store.Ref, len(claims))
	for i, c := range claims {
		c.ref.Token = l.store.NewToken()
		refs[i] = c.ref
	}
	first := claims[0]
	sent := now()
	l.claims.Add(1) // as in ask
	fences, err := bundler.AcquireAll(first.ctx, refs, first.timeout(), func(granted bool, err error) {
		defer l.claims.Done()
		if granted || err != nil {
			l.cleanUp(refs, err == nil)
		}
	})
	if err != nil {
		first.attempts++ // there was a question, and no answer
		fault := store.AsError(err)
		if !fault.Pending {
			l.claims.Done()
			if fault.Ambiguous {
				l.cleanUp(refs, false)
			}
		}
		return nil, fault
	}
	l.claims.Done()
	if fences == nil {
		return nil, nil
	}
	grants := make([]grant, len(claims))
	for i, c := range claims {
		c.attempts, c.traces = 1, true
		grants[i] = grant{fence: fences[i], since: sent, ttl: c.ref.TTL}
	}
	return grants, nil
}

func (l *Locker) cleanUp(refs []store.Ref, certain bool) {
	for _, ref := range refs {
		l.janitor.Add(ref, certain)
	}
}

// giveUp gives back the parts that were had. err is why the next was not.
func (l *Lease) giveUp(ctx context.Context, err error) error {
	var refusal *AcquireError
	if ctx.Err() == nil && errors.As(err, &refusal) {
		for _, part := range l.parts {
			if !part.Valid() {
				told := *refusal // observers may have the other one
				told.Err = fmt.Errorf("%w: %q was lost while it was waited for the rest", ErrUnavailable, part.Key())
				told.RetryAfter = minRetryAfter
				err = &told
			}
		}
	}
	l.releaseBackward(ctx) // logged; what was lost is in err
	l.tellReleased()
	return err
}

// releaseBackward gives back the parts, the last one first, within the time
// that one release has. It returns their errors in that order.
func (l *Lease) releaseBackward(ctx context.Context) (errs []error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBudget)
	defer cancel()
	for _, part := range slices.Backward(l.parts) {
		errs = append(errs, part.releaseWithin(ctx))
	}
	return errs
}

func (l *Lease) keys() string {
	names := make([]string, len(l.parts))
	for i, part := range l.parts {
		names[i] = part.Key()
	}
	return strings.Join(names, ", ")
}

// FenceOf returns the fence of one of the lease's keys, given with its prefix,
// and 0 for a key that is not among them. For a lease of one key it is Fence.
func (l *Lease) FenceOf(key string) int64 {
	if l.parts == nil && l.ref.Key == key {
		return l.fence
	}
	for _, part := range l.parts {
		if part.ref.Key == key {
			return part.fence
		}
	}
	return 0
}

// partsValidUntil is when the first of the parts ends. A part without a lock,
// because the policy failed open, does not end.
func (l *Lease) partsValidUntil() (first time.Time) {
	for _, part := range l.parts {
		if until := part.ValidUntil(); first.IsZero() || !until.IsZero() && until.Before(first) {
			first = until
		}
	}
	return first
}

// releaseParts ends the lease's context and gives back the parts, the last one
// first.
func (l *Lease) releaseParts(ctx context.Context) error {
	l.Valid() // parts that are over are told so, with ErrLost, before the context ends
	l.mu.Lock()
	l.end(released, ErrReleased)
	l.mu.Unlock()
	errs := l.releaseBackward(ctx)
	err := errors.Join(errs...)
	if errors.Is(err, ErrLost) {
		return fmt.Errorf("%w: %s", ErrLost, l.lostKeys(errs))
	}
	return err
}

// lostKeys names the parts whose release, in reverse order, is ErrLost.
func (l *Lease) lostKeys(errs []error) string {
	var names []string
	for i, part := range slices.Backward(l.parts) {
		if errors.Is(errs[len(errs)-1-i], ErrLost) {
			names = append(names, part.Key())
		}
	}
	return strings.Join(names, ", ")
}
