package redisstore

import (
	"time"

	"github.com/lockmw/kit/internal/store"
)

// tickEvery is how often the calls that want an answer are looked at: whether one
// has waited too long, is over its time, or is carried by somebody who wants to
// leave. A timer for each call would cost a tenth of what a busy process does.
const tickEvery = 4 * time.Millisecond

// lastWord is how much longer than its deadline a call waits for whoever carries it.
const lastWord = 100 * time.Millisecond

// calls is a list, the oldest first. A call is in one list at most. It may leave
// from any place at the same cost: thousands of callers may give up together.
type calls struct {
	first, last *call
	n           int
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
	s.crowd, s.most = s.most > s.usual, s.open()
	var next *call
	for c := s.sent.first; c != nil; c = next {
		next = c.after
		switch {
		case c.carried: // its deadline bounds it on the connection
			s.cut(c)
			if !now.Before(c.deadline) {
				c.giveUp()
			}
		case !now.Before(c.deadline):
			s.expire(c, now)
		}
	}
	for c := s.waiting.first; c != nil; c = next {
		next = c.after
		if !now.Before(c.deadline) {
			s.expire(c, now)
		}
	}
	for s.lanes < s.max && s.waiting.n > 0 && now.Sub(s.waiting.first.begun) >= lanePatience {
		s.hurry()
	}
	s.watched = s.open() > 0 || s.crowd
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
	s.remove(c)
	if c.sent {
		c.left, c.late = true, nil
	}
	c.err = &store.Error{Err: errBusy, Ambiguous: c.sent, Reach: store.Silent}
	c.done <- struct{}{}
}

// hurry makes another lane for what waits. The caller holds mu.
func (s *sender) hurry() {
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
	s.remove(c)
	if !c.sent {
		return false
	}
	c.left = true
	if !c.several { // others may still wait for what goes with it
		c.giveUp()
	}
	return true
}

// remove takes c from those that want an answer. The caller holds mu.
func (s *sender) remove(c *call) {
	if c.sent {
		s.sent.remove(c)
	} else {
		s.waiting.remove(c)
	}
}
