package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

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
	s.about(c, r.Key, acquireScript, &c.token, &c.terms, &joins[r.Join], s.hears())
	c.onekey = oneKeyOf(r.Ref, "take", millis(r.TTL))
	if r.Place != (store.Place{}) || r.Fence > 0 {
		c.args = append(c.args, r.Place.Waited.Microseconds(), r.Place.Behind, c.fenced(r.Ref))
	}
	c.call.Patient = patient(at, r)
	var late func(any, error)
	if r.Late != nil {
		late = func(reply any, err error) {
			if err == nil {
				var a store.Answer
				a, err = answer(reply)
				r.Late(a, err)
				return
			}
			r.Late(store.Answer{}, unsettled(err, at))
		}
	}
	reply, err := s.send(ctx, timeToSend(began.Add(bounded(r.Timeout)), time.Now()), r.Key, c, late)
	if err != nil {
		return store.Answer{}, unsettled(err, at)
	}
	a, err = answer(reply)
	if err == nil {
		s.sawClock(a.Server)
	}
	return a, err
}

// patient reports whether the script may wait while the server is behind (wire/behind.go):
// whoever asks has no place in a queue, and left nothing in Redis that only the script
// brings to an end; nor has Redis answered already, so that "behind" would be no news of it.
func patient(at progress, r store.Request) bool {
	return at == notAsked && !r.Again && r.Place == (store.Place{})
}

// timeToSend returns until, or a millisecond after now if that is later. A command that
// is asked for when its time has just run out is sent all the same: where a release is
// not sent the lock stays taken for the rest of its TTL.
func timeToSend(until, now time.Time) time.Time {
	if least := now.Add(time.Millisecond); until.Before(least) {
		return least
	}
	return until
}

// unsettled is err, of the script that was asked after the four commands of set.go. Where
// SET had taken the lock by then, the token may have it.
func unsettled(err error, at progress) error {
	e := store.AsError(err)
	e.Ambiguous = e.Ambiguous || at == takenUnsure
	return e
}

// answer reads acquire.lua's result.
func answer(reply any) (store.Answer, error) {
	if fence, ok := integer(reply); ok {
		return store.Answer{Granted: true, Fence: fence, Server: fence}, nil
	}
	f, ok := reply.([]any)
	if !ok || len(f) < 3 {
		return store.Answer{}, &store.Error{Err: errReply, Ambiguous: true}
	}
	granted, ok0 := f[0].(int64)
	server, ok2 := integer(f[2])
	if granted == 1 {
		fence, ok1 := integer(f[1])
		if !ok0 || !ok1 || !ok2 {
			return store.Answer{}, &store.Error{Err: errReply, Ambiguous: true}
		}
		a := store.Answer{Granted: true, Fence: fence, Server: server}
		if len(f) > 3 {
			if a.Siblings, ok = f[3].(string); !ok {
				return store.Answer{}, &store.Error{Err: errReply, Ambiguous: true}
			}
		}
		if len(f) > 4 {
			if a.Contended, ok = integer(f[4]); !ok {
				return store.Answer{}, &store.Error{Err: errReply, Ambiguous: true}
			}
		}
		a.Unqueued = len(f) > 5 // by onekey.lua
		return a, nil
	}
	if !ok0 || !ok2 || len(f) < 5 {
		return store.Answer{}, &store.Error{Err: errReply, Ambiguous: true}
	}
	left, ok1 := f[1].(int64)
	siblings, ok3 := f[3].(string)
	fresh, ok4 := f[4].(int64)
	if !ok1 || !ok3 || !ok4 {
		return store.Answer{}, &store.Error{Err: errReply, Ambiguous: true}
	}
	a := store.Answer{
		Left:     time.Duration(max(left, 0)) * time.Millisecond,
		Server:   server,
		Siblings: siblings,
		Fresh:    fresh == 1,
	}
	if len(f) > 5 && !readHolder(&a, f[5:]) {
		return store.Answer{}, &store.Error{Err: errReply, Ambiguous: true}
	}
	return a, nil
}

// readHolder reads what acquire.lua says of the holder and of those who wait.
// onekey.lua, which sees the lock alone, says nothing of them.
func readHolder(a *store.Answer, f []any) bool {
	if len(f) < 2 {
		return false
	}
	who, ok0 := f[0].(string)
	waiting, ok1 := f[1].(int64)
	if !ok0 || !ok1 {
		return false
	}
	a.Waiting = int(waiting)
	if who == "" {
		return true
	}
	process, minted, _ := strings.Cut(who, ":")
	fence, ok := integer(minted)
	if !ok || process == "" {
		return false
	}
	a.Holder, a.HolderFence = store.Holder{Instance: instanceOf(process), Age: age(a.Server, fence), Left: a.Left}, fence
	return true
}

// integer reads a number that a script sent as text, to keep all its digits.
func integer(v any) (int64, bool) {
	text, ok := v.(string)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, r store.Ref, leave bool) (store.Released, error) {
	until := deadline(ctx) // of both scripts
	if did, err := s.give(ctx, until, r, leave); did != store.NotHeld || err != nil {
		return did, err
	}
	c := s.command()
	c.token = r.Token
	s.about(c, r.Key, releaseScript, &c.token, &s.channels, c.fenced(r))
	c.onekey = oneKeyOf(r, "give", 0)
	if leave {
		c.args = append(c.args, terms(r))
		c.entry = entry(r)
	}
	return s.release(ctx, until, r.Key, c)
}

// deadline is when ctx's deadline is, but in opTimeout at the latest. Also a context that
// does not end by itself has one: see store.Until.
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
	s.about(c, r.Key, releaseScript, r.Token, &s.channels, c.fenced(r), "", strconv.FormatInt(ms, 10))
	c.onekey = oneKeyOf(r, "give", ms)
	return s.release(ctx, deadline(ctx), r.Key, c)
}

func (s *Store) release(
	ctx context.Context, until time.Time, name string, c *command,
) (store.Released, error) {
	reply, err := s.send(ctx, until, name, c, nil)
	if err != nil {
		return store.NotHeld, err
	}
	return s.releasedBy(reply)
}

// releasedBy reads release.lua's result, and passes on the news in it.
func (s *Store) releasedBy(reply any) (store.Released, error) {
	if list, ok := reply.([]any); ok && len(list) > 1 && s.tellAll(list[1:]) {
		reply = list[0]
	}
	did, ok := released(reply)
	if !ok {
		return store.NotHeld, &store.Error{Err: errReply, Ambiguous: true}
	}
	return did, nil
}

// ReleaseTo implements store.Relay.
func (s *Store) ReleaseTo(
	ctx context.Context, r, next store.Ref, place store.Place,
) (store.Released, store.Answer, error) {
	c := s.command()
	c.token, c.heir, c.terms = r.Token, next.Token, terms(next)
	s.about(c, r.Key, releaseToScript, &c.token, &c.heir, &c.terms,
		s.hears(), place.Waited.Microseconds(), place.Behind, c.fenced(r))
	reply, err := s.send(ctx, deadline(ctx), r.Key, c, nil)
	if err != nil {
		return store.NotHeld, store.Answer{}, err
	}
	did, a, ok := s.releasedTo(reply)
	if !ok {
		return store.NotHeld, store.Answer{}, &store.Error{Err: errReply, Ambiguous: true}
	}
	return did, a, nil
}

// releasedTo reads releaseto.lua's result, and passes on the news in it.
func (s *Store) releasedTo(reply any) (store.Released, store.Answer, bool) {
	if fence, ok := integer(reply); ok {
		return store.HandedOver, store.Answer{Granted: true, Fence: fence, Server: fence}, true
	}
	f, ok := reply.([]any)
	if !ok || len(f) < 4 || !s.tellAll(f[4:]) {
		return 0, store.Answer{}, false
	}
	did, ok0 := released(f[0])
	server, ok2 := integer(f[2])
	contended, ok3 := integer(f[3])
	a := store.Answer{Server: server, Contended: contended}
	ok1 := f[1] == ""
	if !ok1 {
		a.Granted = true
		a.Fence, ok1 = integer(f[1])
	}
	return did, a, ok0 && ok1 && ok2 && ok3
}

// tellAll passes on the news in a script's result.
func (s *Store) tellAll(list []any) bool {
	for _, news := range list {
		text, ok := news.(string)
		if !ok {
			return false
		}
		s.tell(text)
	}
	return true
}

// released reads what a script says of a release.
func released(reply any) (store.Released, bool) {
	switch reply {
	case int64(0):
		return store.NotHeld, true
	case int64(1):
		return store.Freed, true
	case int64(2):
		return store.HandedOver, true
	}
	return store.NotHeld, false
}
