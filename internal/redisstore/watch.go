package redisstore

import (
	"slices"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// tickEvery is how often the calls that want an answer are looked at: whether one
// has waited too long, is over its time, or is carried by somebody who wants to
// leave. A timer for each call would cost a tenth of what a busy process does.
const tickEvery = 4 * time.Millisecond

// lastWord is how much longer than its deadline a call waits for whoever carries it.
const lastWord = 100 * time.Millisecond

// calls is a list, the oldest first.
type calls struct {
	first, last *call
	n           int
	most        int // n, since the last tick
}

func (l *calls) add(c *call) {
	c.before = l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.after = c
	}
	l.last = c
	l.n++
	l.most = max(l.most, l.n)
}

func (l *calls) remove(c *call) {
	if c.before == nil {
		l.first = c.after
	} else {
		c.before.after = c.after
	}
	if c.after == nil {
		l.last = c.before
	} else {
		c.after.before = c.before
	}
	c.before, c.after = nil, nil
	l.n--
}

// keepWatch has tick run until no call wants an answer and no crowd is left. The caller
// holds mu.
func (s *sender) keepWatch() {
	switch {
	case s.watched:
	case s.watch == nil:
		s.watch = time.AfterFunc(tickEvery, s.tick)
	default:
		s.watch.Reset(tickEvery)
	}
	s.watched = true
}

// tick looks after the calls.
func (s *sender) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.crowd = s.calls.most > s.usual
	s.calls.most = s.calls.n
	for c := s.calls.first; c != nil; {
		next := c.after
		switch {
		case c.carried: // its deadline bounds it on the connection
			s.cut(c)
			if !now.Before(c.deadline) {
				c.giveUp()
			}
		case !now.Before(c.deadline):
			s.expire(c, now)
		case !c.sent && now.Sub(c.begun) >= lanePatience:
			s.hurry()
		}
		c = next
	}
	s.watched = s.calls.first != nil || s.crowd
	if s.watched {
		s.watch.Reset(tickEvery)
	}
}

// cut ends the connection of a call whose caller wanted to leave by the last tick:
// go-redis does not let a cancelled context interrupt a command. The caller holds mu.
func (s *sender) cut(c *call) {
	switch {
	case c.ctx.Err() == nil:
	case !c.leaving:
		c.leaving = true
		c.giveUp()
	default:
		own, turn := c.own, c.turn
		s.running.Go(func() { own.cut(turn) }) // a connection of the user's Dialer may take its time
	}
}

// expire has the caller go on without an answer. Whoever carries the call knows
// more, and says it within lastWord: if there was no connection, it was not sent.
// The caller holds mu.
func (s *sender) expire(c *call, now time.Time) {
	if c.sent {
		c.giveUp()
		if now.Sub(c.deadline) < lastWord {
			return
		}
	}
	s.calls.remove(c)
	if c.sent {
		c.left, c.late = true, nil
	} else {
		s.unwait(c)
	}
	c.err = &store.Error{Err: errBusy, Ambiguous: c.sent, Reach: store.Silent}
	c.done <- struct{}{}
}

// hurry makes another lane for what waits. The caller holds mu.
func (s *sender) hurry() {
	if s.lanes >= s.max {
		return
	}
	s.lanes++
	s.hurried = max(s.hurried+1, s.lanes-s.crowded)
	s.running.Add(1)
	go s.lane(nil, s.take())
}

// leave is for a caller whose ctx has ended. It reports whether there is no answer
// yet, and late gets what comes of the call. Otherwise the call is over, and
// if it was not sent there is no answer either.
func (s *sender) leave(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-c.done:
		return false
	default:
	}
	s.calls.remove(c)
	if !c.sent {
		s.unwait(c)
		return false
	}
	c.left = true
	if !c.several { // others may still wait for what goes with it
		c.giveUp()
	}
	return true
}

// unwait takes c from those that wait for a lane. The caller holds mu.
func (s *sender) unwait(c *call) {
	i := slices.Index(s.waiting, c)
	if i == 0 {
		s.waiting = s.waiting[1:]
		return
	}
	s.waiting = slices.Concat(s.waiting[:i], s.waiting[i+1:]) // take has given away parts of the old one
}
