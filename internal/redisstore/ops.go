package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// What each method of a Store sends to Redis, and what it makes of the reply: Acquire, the releases, AcquireAll, ForceRelease
// and Inspect. Each makes a command (command.go), the call of one script, and has it sent (exchange.go). Renew and Remove,
// which send many commands together, are in batch.go. How replies are read is in replies.go.

// joins are the words of acquire.lua for what a command leaves behind that does not get the lock.
var joins = [...]string{store.Try: "try", store.Wait: "wait", store.Last: "last"}

// Acquire implements store.Store.
func (s *Store) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	if err := s.elsewhere(); err != nil {
		return store.Answer{}, err
	}
	began := time.Now()
	until := timeToSend(notAfter(r.Until, began), began)
	a, at, err := s.setBehind(ctx, r, began, until)
	if at == decided {
		return a, err
	}
	if s.settle(ctx, r.Key, settleBy(until, began)) {
		began = time.Now()
		until = timeToSend(until, began)
	}
	if at == notSent {
		a, at, err = s.set(ctx, r, began, until, nil)
	}
	if at == decided {
		return a, err
	}
	c := s.command()
	switch {
	case r.Ticket != nil:
		s.resumes(c, r)
	case r.Recall != nil:
		s.recalls(c, r, joins[r.Join])
	default:
		c.token, c.terms = r.Token, terms(r.Ref)
		s.onLock(c, r.Key, acquireScript, &c.token, &c.terms, &joins[r.Join], s.hears())
		c.onekey = oneKeyOf(r.Ref, "acquire", millis(r.TTL))
		if s.cluster && r.Again { // it may have a place in the queue, which acquire.lua takes away with the grant
			c.entry, c.keeps = entry(r.Ref), r.Join == store.Wait
		}
		if r.Place != (store.Place{}) || r.Next.Token != "" || r.Fence > 0 {
			place, known := c.placed(r)
			c.args = append(c.args, place.Waited.Microseconds(), place.Behind, known)
		}
	}
	c.call.Patient = patient(at, r)
	var late func(any, error)
	if tell := r.Late; tell != nil { // r itself is not captured: it would be allocated
		late = func(reply any, err error) {
			if err == nil {
				var a store.Answer
				a, err = readAnswer(reply)
				tell(a, err)
				return
			}
			tell(store.Answer{}, ambiguousIfTaken(err, at))
		}
	}
	reply, err := s.send(ctx, timeToSend(until, time.Now()), r.Key, c, late)
	if err != nil {
		return store.Answer{}, ambiguousIfTaken(err, at)
	}
	a, err = readAnswer(reply)
	if err == nil {
		s.noteClock(a.Clock)
	}
	if r.Next.Token != "" { // one who gives up its place is not told whether its locker was known
		a.Placed, a.Fresh = a.Fresh, false
	}
	return a, err
}

// placed returns the place that a command asks for, and what acquire.lua is to know beside it: the token's fence, or who the place is for
// if it is not the token's.
func (c *command) placed(r store.Request) (store.Place, any) {
	if next := r.Next; next.Token != "" {
		return next.Place, entry(next.Ref)
	}
	return r.Place, c.fenced(r.Ref)
}

// patient reports whether acquire.lua may be held back while the server is behind
// (wire/behind.go). It may if the token has no place in a queue, and if the four commands of
// set.go were not sent: they may have taken the lock, which only the script puts in order,
// and they were answered, so that the server cannot be said to give no answer.
func patient(at progress, r store.Request) bool {
	return at == notSent && !r.Again && r.Place == (store.Place{})
}

// timeToSend returns until, or a millisecond after now if that is later. So a command whose
// time has just run out is sent all the same: if a release were not sent, the lock would stay
// taken for the rest of its TTL.
func timeToSend(until, now time.Time) time.Time {
	if least := now.Add(time.Millisecond); until.Before(least) {
		return least
	}
	return until
}

// settleBy returns until when a command waits for releases of its lock, which is asked for now and has time until then.
//
// A release may take up all of that: one that was announced comes behind a renewal, which has a second where its connection
// hangs. A command that had waited for so long would be sent with a millisecond left. It would overtake the release all the same, only that
// nobody heard the answer: its caller would be told that Redis does not answer, though it does over other connections.
// So a command keeps a third of its time for itself, or leastTimeout if that is less.
//
// It keeps no more: nothing is to overtake a release that may yet come. Whoever does finds the lock taken, and is refused
// if it may not wait. One that may is put into the queue, and with each later command waits anew for what is not over.
func settleBy(until, now time.Time) time.Time {
	return until.Add(-min(until.Sub(now)/3, leastTimeout))
}

// afterReleases waits for the releases of the lock called name, for a command that ctx bounds. It returns how long that has then.
func (s *Store) afterReleases(ctx context.Context, name string) (until time.Time) {
	until = deadline(ctx)
	s.settle(ctx, name, settleBy(until, time.Now()))
	return timeToSend(until, time.Now())
}

// ambiguousIfTaken describes err, which came of acquire.lua. If the four commands of set.go
// were sent before and SET took the lock, the token may have it.
func ambiguousIfTaken(err error, at progress) error {
	e := store.AsError(err)
	e.Ambiguous = e.Ambiguous || at == takenInDoubt
	return e
}

// notAfter returns until when a command may take that is asked for now: until, or opTimeout from
// now if that is earlier, or until is zero.
func notAfter(until, now time.Time) time.Time {
	if most := now.Add(opTimeout); until.IsZero() || until.After(most) {
		return most
	}
	return until
}

// deadline is notAfter for a command that ctx bounds.
func deadline(ctx context.Context) time.Time {
	now := time.Now()
	own, _ := ctx.Deadline()
	return timeToSend(notAfter(own, now), now)
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, g store.Give) (store.Released, store.Answer, error) {
	now := time.Now()
	until := timeToSend(notAfter(g.Until, now), now) // of give.lua and release.lua together
	if g.Next.Token == "" && g.Stay <= 0 && g.Record == nil && g.Ticket.Token == "" {
		if did, err := s.give(ctx, until, g.Ref); did != store.NotHeld || err != nil {
			return did, store.Answer{}, err
		}
	}
	return s.release(ctx, until, g)
}

// release sends the command that ends g's matter by itself.
func (s *Store) release(ctx context.Context, until time.Time, g store.Give) (store.Released, store.Answer, error) {
	c := s.command()
	s.releases(c, g)
	reply, err := s.send(ctx, until, g.Key, c, nil)
	if err != nil {
		return store.NotHeld, store.Answer{}, err
	}
	return s.released(g, reply)
}

// releases makes c the command that ends g's matter by itself: release.lua, or releaseto.lua where the lock is offered, or
// handon.lua where a ticket is to have it.
func (s *Store) releases(c *command, g store.Give) {
	c.token = g.Token
	switch {
	case g.Record != nil:
		s.keeps(c, g)
		return
	case g.Ticket.Token != "":
		s.handsOn(c, g)
		return
	}
	if next := g.Next; next.Token != "" {
		c.next, c.terms = next.Token, terms(next.Ref)
		s.onLock(c, g.Key, releaseToScript, &c.token, &c.next, &c.terms,
			s.hears(), next.Place.Waited.Microseconds(), next.Place.Behind, c.fenced(g.Ref))
		return
	}
	s.onLock(c, g.Key, releaseScript, &c.token, &s.channels, c.fenced(g.Ref))
	if g.Stay > 0 {
		c.args = append(c.args, "") // it leaves no queue
	}
	c.onekey = oneKeyOf(g.Ref, "release", c.stays(g.Stay))
}

// tellsValue adds to the arguments of release.lua what SET wrote, if it took the lock and nothing of it is to stay.
func (c *command) tellsValue(g store.Give) {
	if c.script != releaseScript || g.Estimate == 0 || g.Fence == 0 || g.Stay > 0 {
		return
	}
	c.value = setValue{g.Token, g.Estimate}
	c.args = append(c.args, "", "", &c.value)
}

// stays adds to the arguments of release.lua for how long the key stays taken, if it does, and returns that in ms.
func (c *command) stays(stay time.Duration) (ms int64) {
	if stay > 0 {
		ms = millis(stay)
		c.args = append(c.args, strconv.FormatInt(ms, 10))
	}
	return ms
}

// released reads the reply to that command, and tells the Listener of the waiters of this locker to whom the lock went.
func (s *Store) released(g store.Give, reply any) (did store.Released, a store.Answer, err error) {
	var messages []any
	if g.Next.Token != "" {
		did, a, messages, err = readReleasedTo(reply)
	} else {
		did, messages, err = readReleased(reply)
	}
	s.tellAll(messages)
	if g.Ticket.Token != "" && did == store.Freed {
		did = store.HandedOn
	}
	return did, a, err
}

// TakesSeveral implements store.Store. A Cluster keeps the keys on several servers, and replicas
// confirm one lock at a time.
func (s *Store) TakesSeveral() bool { return !s.cluster && s.replicas == 0 }

// AcquireAll implements store.Store.
func (s *Store) AcquireAll(
	ctx context.Context, refs []store.Ref, until time.Time, late func(granted bool, err error),
) ([]int64, error) {
	if err := s.elsewhere(); err != nil {
		return nil, err
	}
	keys := make([][keyCount]redisKey, len(refs))
	args := append(make([]any, 0, keyPosition+(keyCount+1)*len(refs)+1), nil, nil, keyCount*len(refs))
	for i, r := range refs {
		keys[i] = s.redisKeys(r.Key)
		args = appendKeys(args, &keys[i])
	}
	args = append(args, terms(refs[0]))
	for _, r := range refs {
		args = append(args, r.Token)
	}
	c := s.command()
	c.script, c.args = allScript, args
	now := time.Now()
	until = timeToSend(notAfter(until, now), now)
	by := settleBy(until, now) // for all of them together
	for _, r := range refs {
		s.settle(ctx, r.Key, by)
	}
	reply, err := s.send(ctx, timeToSend(until, time.Now()), refs[0].Key, c, func(reply any, err error) {
		var granted []int64
		if err == nil {
			granted, err = readFences(reply, len(refs))
		}
		if late != nil {
			late(granted != nil, err)
		}
	})
	if err != nil {
		return nil, err
	}
	return readFences(reply, len(refs))
}

// Instance implements store.Store: the part of the tokens that is no secret.
func (s *Store) Instance() string { return instanceOf(s.locker) }

// ForceRelease implements store.Store.
func (s *Store) ForceRelease(ctx context.Context, key string, by store.Intervention) error {
	until := s.afterReleases(ctx, key)
	c := s.command()
	s.onLock(c, key, forceScript, &s.channels)
	if by != (store.Intervention{}) {
		c.args = append(c.args, escape(by.Author)+" "+escape(by.Reason))
	}
	_, err := s.send(ctx, until, key, c, nil)
	return err
}

// Inspect implements store.Store.
func (s *Store) Inspect(ctx context.Context, key string) (store.Info, error) {
	until := s.afterReleases(ctx, key)
	c := s.command()
	s.onRecord(c, key, inspectScript)
	reply, err := s.send(ctx, until, key, c, nil)
	if err != nil {
		return store.Info{}, err
	}
	return readInfo(s.locker, reply)
}
