package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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
	carry func(*line, []*call) // sends calls, over a line if there is one, and ends each
	usual int                  // lanes
	max   int
	spare sync.Pool   // of *call, which are over
	quick atomic.Bool // answers are

	mu      sync.Mutex
	waiting []*call
	lines   []*line // that are free
	lanes   int
	running sync.WaitGroup
}

// newSender returns a sender with the usual number of lanes and at most max.
func newSender(usual, max int, carry func(*line, []*call)) *sender {
	return &sender{carry: carry, usual: usual, max: max}
}

// do carries out c. When ctx ends first it returns at once, and late (if not
// nil) gets what came of the call. It is bounded by c's deadline. over says that
// c is no longer in use.
func (s *sender) do(ctx context.Context, c *call) (value any, over bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, true, &store.Error{Err: err} // never sent
	}
	s.mu.Lock()
	start := s.lanes < s.usual
	var own *line
	if n := len(s.lines); start && n > 0 {
		own, s.lines = s.lines[n-1], s.lines[:n-1]
	}
	// A new connection may take longer than the call has, and no deadline ends
	// that; a caller who may want to leave carries only what is answered soon.
	c.carried = own != nil && own.answers() && (ctx.Done() == nil || s.quick.Load())
	if c.done == nil && !c.carried {
		c.done = make(chan struct{}, 1)
	}
	if !start {
		s.waiting = append(s.waiting, c)
		s.mu.Unlock()
		return s.await(ctx, c, lanePatience)
	}
	c.sent = true
	s.lanes++
	s.running.Add(1)
	s.mu.Unlock()
	c.batch[0] = c
	if !c.carried {
		go s.lane(own, c.batch[:])
		return s.await(ctx, c, time.Until(c.deadline))
	}
	s.carryOver(ctx, own, c)
	value, err = c.value, c.err
	if batch := s.next(own); batch != nil {
		go s.lane(own, batch)
	}
	return value, true, err
}

// await waits for c's answer, and after patience asks for another lane for c if
// that has none.
func (s *sender) await(ctx context.Context, c *call, patience time.Duration) (value any, over bool, err error) {
	timer := time.NewTimer(min(patience, time.Until(c.deadline)))
	defer timer.Stop()
	for {
		select {
		case <-c.done:
			return c.value, true, c.err
		case <-ctx.Done():
			return s.leave(c, context.Cause(ctx), true)
		case <-timer.C:
			left := time.Until(c.deadline)
			if left <= 0 {
				return s.leave(c, errBusy, false)
			}
			s.hurry(c)
			timer.Reset(left)
		}
	}
}

// carryOver carries out c over own. When ctx ends and no answer comes, own is cut.
func (s *sender) carryOver(ctx context.Context, own *line, c *call) {
	turn := own.begin()
	defer own.end()
	if ctx.Done() == nil {
		s.carry(own, c.batch[:])
		return
	}
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(cutAfter, func() { own.cut(turn) })
	})
	s.carry(own, c.batch[:])
	if !stop() && c.err != nil {
		c.err = &store.Error{Err: context.Cause(ctx), Ambiguous: true}
	}
}

// lane carries out batch after batch until none waits, over own if it is not nil.
func (s *sender) lane(own *line, batch []*call) {
	for batch != nil {
		s.carry(own, batch)
		batch = s.next(own)
	}
}

// next returns what waits for the lane that has become free, or nil: then there
// is one lane less, and its line, if it has one, is free.
func (s *sender) next(own *line) []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if batch := s.take(); batch != nil {
		return batch
	}
	if own != nil {
		s.lines = append(s.lines, own)
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
	go s.lane(nil, s.take())
}

// leave is for a caller whose ctx or time has ended. With pending, late gets
// what comes of the call.
func (s *sender) leave(c *call, cause error, pending bool) (value any, over bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.sent {
		i := slices.Index(s.waiting, c)
		s.waiting = slices.Concat(s.waiting[:i], s.waiting[i+1:]) // take has given away parts of the old one
		return nil, true, &store.Error{Err: cause}
	}
	select {
	case <-c.done:
		return c.value, true, c.err
	default:
	}
	c.left = true
	if !pending {
		c.late = nil
	}
	return nil, false, &store.Error{Err: cause, Ambiguous: true, Pending: pending}
}

// end gives the answer to whoever waits for it. Nobody may use c afterwards.
func (s *sender) end(c *call, value any, err error) {
	s.mu.Lock()
	left := c.left
	if !left {
		c.value, c.err = value, err
		if !c.carried {
			c.done <- struct{}{}
		}
	}
	s.mu.Unlock()
	if left && c.late != nil {
		c.late(value, err)
	}
}

// wait returns when no call is under way.
func (s *sender) wait() { s.running.Wait() }

// close ends the lines, after the last call.
func (s *sender) close() (err error) {
	for _, l := range s.lines {
		err = errors.Join(err, l.client.Close())
	}
	return err
}
