package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/mono"
	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// This file has the way to a free lock without a script. Most locks are free when they are
// asked for, and a script costs Redis more than what it does. So a mutex is first asked for
// by four commands in one write:
//
//	SET lock <token>:~<estimate> NX PX <ttl>
//	EXISTS queue lockers fence
//	TIME
//	GET lock
//
// The estimate is what the server's clock shows, about, in µs: the Store does not know it
// exactly. The lock is ours if all four hold:
//
//   - SET took it;
//   - EXISTS is 0;
//   - GET is what SET wrote;
//   - TIME differs by at most offMost from the estimate.
//
// Then TIME is our fence. If SET took nothing, or any of the rest does not hold,
// acquire.lua is asked. Nobody was told by then that we have the lock, so acquire.lua
// gives it to those who were there before us, or gives it to us with a fence of its own.
//
// Others may come between the commands, so each is there for something, and so is their
// order:
//
//   - EXISTS comes after SET. Whoever asks to wait after SET finds the lock taken, and
//     makes the ~ in its value a ! if it is the first to wait (enter.lua). So if EXISTS finds
//     no queue, and GET finds the ~, there is no queue at GET either, and nobody has
//     been overtaken.
//   - TIME comes after SET: the clock has passed the fences of all earlier holders, or one
//     is kept beside the lock, and EXISTS finds it.
//   - GET comes after TIME: whoever has the lock after us takes it after our TIME, so its
//     fence is higher. If the clock is set back meanwhile, our fence is kept beside the
//     lock when we give the lock back or renew it.
//   - EXISTS names lockers, too, although only the queue and the fence matter to the grant.
//     give.lua deletes the lock alone. Where there are lockers, acquire.lua gives us the
//     lock with its fence in the value; that is given back by release.lua, which clears
//     them.
//
// The lock's value does not tell the fence, but the estimate. In a Cluster the estimate is of
// the clock of whichever master answered last. The fence of such a holder is TIME after its
// SET, at most offMost (in Lua, OFF_US) away from the estimate. A forced release (force.lua),
// which does not know the fence, goes above the estimate and OFF_US; whoever comes after the
// key's expiry has seen the clock pass the fence.
//
// The holder knows its fence, and tells it with each command about the lock. It gives the
// lock back by give.lua, which does nothing where the value has changed; then release.lua
// does the rest.

// withoutScript is what a Store knows of the way to a free lock without a script.
type withoutScript struct {
	scripted bool         // it is not taken; only tests set it
	clock    atomic.Int64 // what the server's clock showed, in µs, when package mono's was 0; 0: not known
}

// noteClock notes what the server's clock showed in a reply that came just now, in µs; 0 says
// nothing.
func (s *Store) noteClock(server int64) {
	if server > 0 {
		s.clock.Store(server - mono.Of(time.Now())/1000)
	}
}

// set asks for a lock by the four commands, at now, until then. There is an answer, or an error, if the
// progress is decided. The commands are sent only for what is probably a free mutex: not for a
// lock of another kind, nor for one that replicas confirm, nor for a token that has asked
// before and may have the lock, or a place in the queue. Nor are they the first command of a
// Store: that is a script, whose reply tells the server's clock.
//
// Where there is a first, which is a release of the lock that was posted, they go behind it over the connection on which it is
// under way. Where that cannot be, or they did not get there, they are not sent.
func (s *Store) set(
	ctx context.Context, r store.Request, now, until time.Time, first *command,
) (a store.Answer, at progress, err error) {
	clock := s.clock.Load()
	switch {
	case s.scripted, clock == 0, r.Fence != 0, s.replicas > 0, !s.suits.Load():
		return store.Answer{}, notSent, nil
	case r.Ticket != nil, r.Recall != nil, r.Again, r.Join == store.Last, r.Kind != store.Kind{}, r.Least != 0, r.Place != store.Place{}:
		return store.Answer{}, notSent, nil
	}
	pool := s.pool(r.Key)
	if pool == nil || first != nil && first.posted.pool != pool {
		return store.Answer{}, notSent, nil
	}
	c := s.command()
	c.keys = s.redisKeys(r.Key)
	estimate := clock + mono.Of(now)/1000
	c.call.Commands, c.call.Replies = appendSet(c.call.Commands[:0], c, r, estimate), 4
	c.call.Deadline, c.call.Patient = until, true
	if r.Late != nil {
		c.call.Late = s.afterLeaving(ctx, c, r, estimate)
	}
	eras := s.dialer.eras.Load()
	if first != nil {
		c.call.Behind = &first.call
	}
	reusable, err := pool.Do(ctx, &c.call)
	if err != nil {
		if reusable {
			s.free(c)
		}
		switch {
		case first != nil && !wire.Sent(err):
			return store.Answer{}, notSent, nil
		case first != nil && errors.Is(err, wire.ErrTimeout) && time.Now().Before(until): // their connection hangs: over another one it may be answered at once
			return store.Answer{}, decided, &store.Error{Err: err, Ambiguous: true, Stale: true}
		}
		return store.Answer{}, decided, s.failed(s.unanswered(ctx, err))
	}
	fence, at, err := s.afterSet(c.call.Reply, r.Token, estimate)
	s.free(c)
	goesOn := s.cluster && redirected(err) || at == notTaken && s.mayBeElsewhere(err, eras)
	if err != nil && !goesOn { // otherwise acquire.lua finds the server that answers
		return store.Answer{}, decided, s.failed(err)
	}
	if at != decided {
		return store.Answer{}, at, nil
	}
	return store.Answer{Granted: true, Grant: store.Grant{Fence: fence, Clock: fence, Estimate: estimate}}, decided, nil
}

// afterLeaving returns the function that tells r.Late what came of c, for Call.Late.
func (s *Store) afterLeaving(
	ctx context.Context, c *command, r store.Request, estimate int64,
) func(replies []byte, err error) {
	late := &c.late
	late.ctx, late.token, late.estimate, late.tell = ctx, r.Token, estimate, r.Late
	if late.call == nil {
		late.call = func(replies []byte, err error) {
			late.tell(s.setLate(late.ctx, late.token, late.estimate, replies, err))
		}
	}
	return late.call
}

// setLate reads the four replies that came after their caller had left. acquire.lua is not sent
// any more; whoever left sees to what the token may have.
func (s *Store) setLate(
	ctx context.Context, token string, estimate int64, replies []byte, err error,
) (store.Answer, error) {
	if err != nil {
		return store.Answer{}, s.failed(s.unanswered(ctx, err))
	}
	fence, at, err := s.afterSet(replies, token, estimate)
	switch {
	case err != nil:
		return store.Answer{}, s.failed(err)
	case at != decided:
		return store.Answer{}, &store.Error{Err: errHalf, Ambiguous: at == takenInDoubt, Evidence: store.Answered}
	}
	return store.Answer{Granted: true, Grant: store.Grant{Fence: fence, Clock: fence}}, nil
}

// errHalf is the outcome where the caller left after the four commands, and acquire.lua would
// have been next.
var errHalf = errors.New("the caller left before it was known who comes first")

// appendSet appends the four commands to b.
func appendSet(b []byte, c *command, r store.Request, estimate int64) []byte {
	b = c.keys[0].appendTo(wire.AppendString(wire.AppendCommand(b, 6), "SET"))
	b = setValue{r.Token, estimate}.appendTo(b)
	b = wire.AppendInt(wire.AppendString(wire.AppendString(b, "NX"), "PX"), millis(r.TTL))
	b = c.keys[1].appendTo(wire.AppendString(wire.AppendCommand(b, 4), "EXISTS"))
	b = c.keys[3].appendTo(c.keys[2].appendTo(b))
	b = wire.AppendString(wire.AppendCommand(b, 1), "TIME")
	return c.keys[0].appendTo(wire.AppendString(wire.AppendCommand(b, 2), "GET"))
}

// afterSet reads the four replies, and says what their errors mean. With an error, at is
// takenInDoubt if SET has taken the lock.
func (s *Store) afterSet(replies []byte, token string, estimate int64) (fence int64, at progress, err error) {
	clock, at, err := readSet(replies, token, estimate)
	s.noteClock(clock)
	refusal, refused := errors.AsType[wire.Refusal](err)
	if refused && at == takenInDoubt && (!s.cluster || !redirected(refusal)) {
		e := s.dialer.verdict(refusal)
		e.Ambiguous = true
		return 0, at, e
	}
	return clock, at, err
}

// give gives back a lock that was taken by SET, by give.lua. If it returns NotHeld and no
// error, nothing was done, and release.lua has to be sent.
func (s *Store) give(ctx context.Context, until time.Time, r store.Ref) (store.Released, error) {
	if r.Estimate == 0 || r.Fence == 0 {
		return store.NotHeld, nil
	}
	c := s.command()
	c.keys[0] = redisKey{s.ns, r.Key, keyEnds[0]}
	c.value = setValue{r.Token, r.Estimate}
	c.script, c.args = giveScript, append(c.room[:0], nil, nil, 1, &c.keys[0], &c.value, c.fenced(r))
	reply, err := s.send(ctx, until, r.Key, c, nil)
	if err != nil {
		return store.NotHeld, err
	}
	did, _, err := readReleased(reply)
	return did, err
}
