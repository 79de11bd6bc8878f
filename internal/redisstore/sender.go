package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/store"
)

const (
	// lanesUsual is how many exchanges are under way before calls are put
	// together: enough that a hand-over never waits for another one, few enough
	// that the work of a busy process is done in large pieces.
	lanesUsual = 4

	// lanePatience is how long a call waits for a lane. Then there is one more:
	// Redis is far away, or a connection hangs, and others may not.
	lanePatience = 10 * time.Millisecond

	// callsMax bounds what goes together, and so how long others of the server
	// may have to wait for it.
	callsMax = 256
)

// A sender has calls carried out. Each of a few goes at once, by itself. Those
// that come while a number of exchanges (lanes) are under way wait until one of
// them ends, and go together, in one pipeline: a process with much to ask spends
// most of its time, and of the server's, on reading and writing, and one write
// costs as much for a hundred calls as for one.
type sender struct {
	carry func([]*call) // sends calls, and ends each
	usual int           // lanes
	max   int

	mu      sync.Mutex
	waiting []*call
	lanes   int
	running sync.WaitGroup
}

// A call is a question on its way.
type call struct {
	question
	ctx      context.Context // its values
	deadline time.Time
	sender   *sender
	late     func(any, error)

	// Guarded by the sender's mutex.
	sent bool // a lane has it
	left bool // nobody waits for the answer

	value any
	err   error
	done  chan struct{} // one: there is an answer
}

// newSender returns a sender with the usual number of lanes and at most max.
func newSender(usual, max int, carry func([]*call)) *sender {
	return &sender{carry: carry, usual: usual, max: max}
}

// do carries out c. When ctx ends first it returns at once, and late (if not
// nil) gets what came of the call. It is bounded by c's deadline.
func (s *sender) do(ctx context.Context, c *call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, &store.Error{Err: err} // never sent
	}
	c.ctx, c.sender, c.done = ctx, s, make(chan struct{}, 1)
	s.mu.Lock()
	if s.lanes >= s.usual {
		s.waiting = append(s.waiting, c)
		s.mu.Unlock()
		return s.await(ctx, c)
	}
	c.sent = true
	s.lanes++
	s.running.Add(1)
	s.mu.Unlock()
	if ctx.Done() == nil { // the caller cannot leave, so it is the lane
		s.carry([]*call{c})
		if batch := s.next(); batch != nil {
			go s.lane(batch)
		}
		return c.value, c.err
	}
	go s.lane([]*call{c})
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		return s.leave(c, context.Cause(ctx))
	}
}

// await is do for a call that waits for a lane.
func (s *sender) await(ctx context.Context, c *call) (any, error) {
	timer := time.NewTimer(min(lanePatience, time.Until(c.deadline)))
	defer timer.Stop()
	for {
		select {
		case <-c.done:
			return c.value, c.err
		case <-ctx.Done():
			return s.leave(c, context.Cause(ctx))
		case <-timer.C:
			left := time.Until(c.deadline)
			if left <= 0 {
				return s.giveUp(c)
			}
			s.hurry(c)
			timer.Reset(left)
		}
	}
}

// lane carries out batch after batch until none waits.
func (s *sender) lane(batch []*call) {
	for batch != nil {
		s.carry(batch)
		batch = s.next()
	}
}

// next returns what waits for the lane that has become free, or nil: then there
// is one lane less.
func (s *sender) next() []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if batch := s.take(); batch != nil {
		return batch
	}
	s.lanes--
	s.running.Done()
	return nil
}

// take returns the calls that go together, or nil. The caller holds mu.
func (s *sender) take() []*call {
	n := min(len(s.waiting), callsMax)
	if n == 0 {
		return nil
	}
	batch := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	for _, c := range batch {
		c.sent = true
	}
	return batch
}

// hurry makes another lane for what waits, if c is still among that.
func (s *sender) hurry(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.sent || s.lanes >= s.max {
		return
	}
	s.lanes++
	s.running.Add(1)
	go s.lane(s.take())
}

// withdraw takes c out of those who wait, or reports that a lane has it. The
// caller holds mu.
func (s *sender) withdraw(c *call) bool {
	for i, other := range s.waiting {
		if other == c {
			s.waiting = append(s.waiting[:i:i], s.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// leave is for a caller whose ctx has ended.
func (s *sender) leave(c *call, cause error) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdraw(c) {
		return nil, &store.Error{Err: cause}
	}
	select {
	case <-c.done:
		return c.value, c.err
	default:
	}
	c.left = true
	return nil, &store.Error{Err: cause, Ambiguous: true, Pending: true}
}

// giveUp is for a caller whose time is over.
func (s *sender) giveUp(c *call) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdraw(c) {
		return nil, &store.Error{Err: errBusy}
	}
	select {
	case <-c.done:
		return c.value, c.err
	default:
	}
	c.left, c.late = true, nil
	return nil, &store.Error{Err: errBusy, Ambiguous: true}
}

// end gives the answer to whoever waits for it.
func (c *call) end(value any, err error) {
	s := c.sender
	s.mu.Lock()
	left := c.left
	if !left {
		c.value, c.err = value, err
		c.done <- struct{}{}
	}
	s.mu.Unlock()
	if left && c.late != nil {
		c.late(value, err)
	}
}

// wait returns when no call is under way.
func (s *sender) wait() { s.running.Wait() }
