package redisstore

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// Most locks are free when they are asked for, and a script costs Redis more than what
// it does. So a mutex is first asked for by three commands in one write:
//
//	SET lock <token>:~<about now> NX PX <ttl>
//	EXISTS queue fence
//	TIME
//
// If SET took the lock and EXISTS found nothing, it is ours, and TIME is its fence: all
// earlier holders have theirs from before our SET, and all later ones come after we
// have released it. The lock's value has no fence then, only about when it was taken;
// whoever holds it tells the fence when it gives the lock back.
//
// If SET took nothing, acquire.lua is asked. If something is there beside the lock, we may
// have jumped the queue of a holder that died, or a fence is kept: acquire.lua is
// asked, too. It takes such a lock for one that is free. Others may have come between
// the commands, and found the lock taken; they stand in the queue then.

// started is when this process did, about: the server's clock is noted relative to it.
var started = time.Now()

// offMost is how much the server's clock may have moved since it was seen last.
const offMost = time.Second

// sawClock notes the server's clock, in µs.
func (s *Store) sawClock(server int64) {
	if server > 0 {
		s.clock.Store(server - time.Since(started).Microseconds())
	}
}

// takenLately notes which locks were found taken, by the hash of their names. Of these a
// script is asked at once.
type takenLately [256]atomic.Int64 // when, in ns of started; 0: never

// takenFor is how long a lock counts as taken.
const takenFor = 100 * time.Millisecond

var takenSeed = maphash.MakeSeed()

func (t *takenLately) at(name string) *atomic.Int64 {
	return &t[maphash.String(takenSeed, name)%uint64(len(t))]
}

func (t *takenLately) add(name string) { t.at(name).Store(int64(time.Since(started))) }

func (t *takenLately) has(name string) bool {
	at := t.at(name).Load()
	return at > 0 && time.Since(started) < time.Duration(at)+takenFor
}

// A progress is how far the three commands brought a question.
type progress uint8

const (
	nowhere  progress = iota // they changed nothing
	halfway                  // the token has the lock, and it is not known whether it may
	answered                 // there is nothing else to ask
)

// set asks for a lock without a script, at now.
func (s *Store) set(ctx context.Context, r store.Request, now time.Time) (a store.Answer, at progress, err error) {
	clock := s.clock.Load()
	switch {
	case s.scripted, clock == 0, s.replicas > 0, !s.suits.Load():
		return store.Answer{}, nowhere, nil
	case r.Again, r.Join == store.Last, r.Kind != store.Kind{}, r.Least != 0, r.Place != store.Place{}:
		return store.Answer{}, nowhere, nil
	}
	pool := s.pool(r.Key)
	if pool == nil || s.taken.has(r.Key) {
		return store.Answer{}, nowhere, nil
	}
	c := s.command()
	c.keys = s.redisKeys(r.Key)
	about := clock + now.Sub(started).Microseconds()
	c.call.Commands, c.call.Replies = appendSet(c.call.Commands[:0], c, r, about), 3
	c.call.Deadline = now.Add(within(r.Timeout))
	if r.Late != nil {
		c.call.Late = s.afterLeaving(ctx, c, r, about)
	}
	over, err := pool.Do(ctx, &c.call)
	if err != nil {
		if over {
			s.free(c)
		}
		return store.Answer{}, answered, s.failed(s.unanswered(ctx, err))
	}
	fence, at, err := s.readSet(c.call.Reply, about)
	s.free(c)
	if err != nil && (!s.cluster || !redirected(err)) { // a script is told more
		return store.Answer{}, answered, s.failed(err)
	}
	return store.Answer{Granted: true, Fence: fence, Server: fence}, at, nil
}

// A lateSet is what came of the three commands after their caller has left. It is kept
// with the command, so that those who do not leave need no memory for it.
type lateSet struct {
	ctx   context.Context
	about int64
	tell  func(store.Answer, error)
	call  func(replies []byte, err error) // reads the others; made once
}

// afterLeaving returns the function that tells r.Late what came of c.
func (s *Store) afterLeaving(ctx context.Context, c *command, r store.Request, about int64) func([]byte, error) {
	late := &c.late
	late.ctx, late.about, late.tell = ctx, about, r.Late
	if late.call == nil {
		late.call = func(replies []byte, err error) { late.tell(s.setLate(late.ctx, late.about, replies, err)) }
	}
	return late.call
}

// setLate reads the three replies that came after their caller had left.
func (s *Store) setLate(ctx context.Context, about int64, replies []byte, err error) (store.Answer, error) {
	if err != nil {
		return store.Answer{}, s.failed(s.unanswered(ctx, err))
	}
	fence, at, err := s.readSet(replies, about)
	switch {
	case err != nil:
		return store.Answer{}, s.failed(err)
	case at != answered:
		return store.Answer{}, &store.Error{Err: errHalf, Ambiguous: at == halfway, Reach: store.Answered}
	}
	return store.Answer{Granted: true, Fence: fence, Server: fence}, nil
}

// errHalf is a lock that was asked for by half: its caller left before the rest.
var errHalf = errors.New("the caller left before it was known who comes first")

// appendSet appends the three commands.
func appendSet(b []byte, c *command, r store.Request, about int64) []byte {
	var digits [20]byte
	b = c.keys[0].appendTo(wire.AppendString(wire.AppendCommand(b, 6), "SET"))
	b = wire.AppendParts(b, r.Token, ":~", string(strconv.AppendInt(digits[:0], about, 10)))
	b = wire.AppendInt(wire.AppendString(wire.AppendString(b, "NX"), "PX"), millis(r.TTL))
	b = c.keys[1].appendTo(wire.AppendString(wire.AppendCommand(b, 3), "EXISTS"))
	b = c.keys[3].appendTo(b)
	return wire.AppendString(wire.AppendCommand(b, 1), "TIME")
}

var (
	tookAlone = []byte("+OK\r\n:0\r\n*2\r\n")
	notTaken  = []byte("$-1\r\n")
)

// readSet reads the three replies. An error says where it came up: halfway, SET was
// carried out.
func (s *Store) readSet(replies []byte, about int64) (fence int64, at progress, err error) {
	if bytes.HasPrefix(replies, notTaken) {
		return 0, nowhere, nil
	}
	if !bytes.HasPrefix(replies, tookAlone) {
		for rest := replies; len(rest) > 0; {
			var value any
			if value, rest, err = wire.Parse(rest); err != nil {
				return 0, at, &store.Error{Err: err, Ambiguous: true}
			}
			if refusal, ok := value.(wire.Refusal); ok {
				if at == nowhere || s.cluster && redirected(refusal) {
					return 0, at, refusal
				}
				e := s.dialer.verdict(refusal)
				e.Ambiguous = true
				return 0, at, e
			}
			if value == "OK" {
				at = halfway
			}
		}
		return 0, at, nil
	}
	now, ok := clockOf(replies[len(tookAlone):])
	if !ok {
		return 0, halfway, &store.Error{Err: errReply, Ambiguous: true}
	}
	s.sawClock(now)
	if off := time.Duration(now-about) * time.Microsecond; off > offMost || off < -offMost {
		return 0, halfway, nil // the lock says that it was taken at another time: a script mends that
	}
	return now, answered, nil
}

// clockOf reads the two values of TIME's reply, in µs.
func clockOf(reply []byte) (now int64, ok bool) {
	seconds, rest, ok0 := wire.Bulk(reply)
	micros, rest, ok1 := wire.Bulk(rest)
	if !ok0 || !ok1 || len(rest) > 0 {
		return 0, false
	}
	s, err0 := strconv.ParseInt(string(seconds), 10, 64)
	us, err1 := strconv.ParseInt(string(micros), 10, 64)
	return s*1_000_000 + us, err0 == nil && err1 == nil && s > 0
}
