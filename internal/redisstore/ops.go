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
	a, at, err := s.set(ctx, r, began)
	if at == decided {
		return a, err
	}
	c := s.command()
	c.token, c.terms = r.Token, terms(r.Ref)
	s.onLock(c, r.Key, acquireScript, &c.token, &c.terms, &joins[r.Join], s.hears())
	c.onekey = oneKeyOf(r.Ref, "acquire", millis(r.TTL))
	if r.Place != (store.Place{}) || r.Fence > 0 {
		c.args = append(c.args, r.Place.Waited.Microseconds(), r.Place.Behind, c.fenced(r.Ref))
	}
	c.call.Patient = patient(at, r)
	var late func(any, error)
	if r.Late != nil {
		late = func(reply any, err error) {
			if err == nil {
				var a store.Answer
				a, err = readAnswer(reply)
				r.Late(a, err)
				return
			}
			r.Late(store.Answer{}, ambiguousIfTaken(err, at))
		}
	}
	reply, err := s.send(ctx, timeToSend(began.Add(bounded(r.Timeout)), time.Now()), r.Key, c, late)
	if err != nil {
		return store.Answer{}, ambiguousIfTaken(err, at)
	}
	a, err = readAnswer(reply)
	if err == nil {
		s.noteClock(a.Server)
	}
	return a, err
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

// ambiguousIfTaken describes err, which came of acquire.lua. If the four commands of set.go
// were sent before and SET took the lock, the token may have it.
func ambiguousIfTaken(err error, at progress) error {
	e := store.AsError(err)
	e.Ambiguous = e.Ambiguous || at == takenInDoubt
	return e
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, r store.Ref, leave bool) (store.Released, error) {
	until := deadline(ctx) // of both scripts together
	if did, err := s.give(ctx, until, r, leave); did != store.NotHeld || err != nil {
		return did, err
	}
	c := s.command()
	c.token = r.Token
	s.onLock(c, r.Key, releaseScript, &c.token, &s.channels, c.fenced(r))
	c.onekey = oneKeyOf(r, "release", 0)
	if leave {
		c.args = append(c.args, terms(r))
		c.entry = entry(r)
	}
	return s.release(ctx, until, r.Key, c)
}

// deadline returns until when a command may take that ctx bounds: ctx's deadline, or opTimeout
// from now if that is earlier. The deadline counts although contexts made by store.Until, which
// have one, never end.
func deadline(ctx context.Context) time.Time {
	now := time.Now()
	until := now.Add(opTimeout)
	if own, ok := ctx.Deadline(); ok && own.Before(until) {
		until = timeToSend(own, now)
	}
	return until
}

// ReleaseAfter implements store.Store.
func (s *Store) ReleaseAfter(ctx context.Context, r store.Ref, stay time.Duration) (store.Released, error) {
	c := s.command()
	ms := max(millis(stay), 1)
	s.onLock(c, r.Key, releaseScript, r.Token, &s.channels, c.fenced(r), "", strconv.FormatInt(ms, 10))
	c.onekey = oneKeyOf(r, "release", ms)
	return s.release(ctx, deadline(ctx), r.Key, c)
}

// release sends c, a script that gives a lock back, and tells the Listener of the waiters of
// this process to whom the lock went.
func (s *Store) release(
	ctx context.Context, until time.Time, name string, c *command,
) (store.Released, error) {
	reply, err := s.send(ctx, until, name, c, nil)
	if err != nil {
		return store.NotHeld, err
	}
	did, messages, err := readReleased(reply)
	s.tellAll(messages)
	return did, err
}

// ReleaseTo implements store.Relay.
func (s *Store) ReleaseTo(
	ctx context.Context, r, next store.Ref, place store.Place,
) (store.Released, store.Answer, error) {
	c := s.command()
	c.token, c.next, c.terms = r.Token, next.Token, terms(next)
	s.onLock(c, r.Key, releaseToScript, &c.token, &c.next, &c.terms,
		s.hears(), place.Waited.Microseconds(), place.Behind, c.fenced(r))
	reply, err := s.send(ctx, deadline(ctx), r.Key, c, nil)
	if err != nil {
		return store.NotHeld, store.Answer{}, err
	}
	did, a, messages, err := readReleasedTo(reply)
	s.tellAll(messages)
	return did, a, err
}

// AcquireAll implements store.Bundler. A Cluster keeps the keys on several servers, and
// replicas confirm one lock at a time: in both cases nothing is sent, and the answer is that
// not all can be had.
func (s *Store) AcquireAll(
	ctx context.Context, refs []store.Ref, timeout time.Duration, late func(granted bool, err error),
) ([]int64, error) {
	if s.cluster || s.replicas > 0 {
		return nil, nil
	}
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
	reply, err := s.send(ctx, time.Now().Add(bounded(timeout)), refs[0].Key, c, func(reply any, err error) {
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
func (s *Store) Instance() string { return instanceOf(s.process) }

// ForceRelease implements store.Store.
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	c := s.command()
	s.onLock(c, key, forceScript, &s.channels)
	_, err := s.send(ctx, deadline(ctx), key, c, nil)
	return err
}

// Inspect implements store.Store.
func (s *Store) Inspect(ctx context.Context, key string) (store.Info, error) {
	c := s.command()
	s.onLock(c, key, inspectScript)
	reply, err := s.send(ctx, deadline(ctx), key, c, nil)
	if err != nil {
		return store.Info{}, err
	}
	return readInfo(s.process, reply)
}
