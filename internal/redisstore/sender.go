package redisstore

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/store"
)

const (
	// lanesUsual is how many calls are under way, each by itself, before calls are
	// put together.
	lanesUsual = 16

	// lanesCrowded is how many exchanges are under way in a crowd: enough that Redis
	// always has something to do, few enough that the work is done in large pieces.
	lanesCrowded = 3

	// lanePatience is how long a call waits for a lane. Then there is one more:
	// Redis is far away, or a connection hangs, and others may not.
	lanePatience = 10 * time.Millisecond

	// callsMax bounds what goes together, and so how long others of the server
	// may have to wait for it.
	callsMax = 256
)

// A sender has calls carried out. Each of a few goes at once, by itself. In a
// crowd, those that come while some exchanges (lanes) are under way wait until one
// of them ends, and go together, in one pipeline: a process with much to ask
// spends most of its time, and of the server's, on reading and writing, and one
// write costs as much for a hundred calls as for one.
type sender struct {
	carry   func(*line, []*call) // sends calls, over a line if there is one, and ends each
	usual   int                  // lanes, where there is no crowd
	crowded int                  // lanes, where there is one
	max     int                  // lanes
	spare   sync.Pool            // of *call, which are over
	quick   atomic.Bool          // answers are

	mu      sync.Mutex
	waiting calls   // for a lane
	sent    calls   // that want an answer still
	most    int     // calls that wanted an answer at one time since the last tick
	crowd   bool    // there are, or were since the last tick but one, more than usual
	lines   []*line // that are free
	lanes   int
	hurried int         // of them, were started because the others were slow
	watch   *time.Timer // has tick run
	watched bool        // it will
	running sync.WaitGroup
}

// newSender returns a sender with the usual number of lanes, that in a crowd, and
// at most max.
func newSender(usual, crowded, max int, carry func(*line, []*call)) *sender {
	return &sender{carry: carry, usual: usual, crowded: crowded, max: max}
}

// get returns a call to fill in.
func (s *sender) get() *call {
	if c, ok := s.spare.Get().(*call); ok {
		return c
	}
	return new(call)
}

// put takes back a call that is no longer in use.
func (s *sender) put(c *call) {
	done, gone := c.done, c.gone
	if c.givenUp {
		gone = nil
	}
	*c = call{done: done, gone: gone}
	s.spare.Put(c)
}

// do carries out c. When ctx ends first it returns at once, and late (if not
// nil) gets what came of the call. It is bounded by c's deadline. over says that
// c is no longer in use.
func (s *sender) do(ctx context.Context, c *call) (value any, over bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, true, &store.Error{Err: err} // never sent
	}
	c.ctx = ctx
	if c.gone == nil {
		c.gone = make(chan struct{})
	}
	s.mu.Lock()
	s.keepWatch()
	n := s.open() + 1
	s.most = max(s.most, n)
	s.crowd = s.crowd || n > s.usual
	start, alone := s.free(), !s.crowd
	if n := len(s.lines); start && alone && n > 0 {
		c.own, s.lines = s.lines[n-1], s.lines[:n-1]
	}
	// A new connection may take longer than the call has, and no deadline ends
	// that; a caller who may want to leave carries only what is answered soon.
	if c.own != nil {
		var sure bool
		c.turn, sure = c.own.begin()
		c.carried = sure && (ctx.Done() == nil || s.quick.Load())
	}
	if c.done == nil && !c.carried {
		c.done = make(chan struct{}, 1)
	}
	if !start || !alone {
		s.waiting.add(c)
		if start {
			s.lanes++
			s.running.Add(1)
			go s.lane(nil, nil)
		}
		s.mu.Unlock()
		return s.await(ctx, c)
	}
	c.sent = true
	s.sent.add(c)
	s.lanes++
	s.running.Add(1)
	s.mu.Unlock()
	c.batch[0] = c
	own := c.own
	if !c.carried {
		go s.lane(own, c.batch[:])
		return s.await(ctx, c)
	}
	s.carry(own, c.batch[:])
	if c.err != nil && ctx.Err() != nil { // it was cut, see tick
		c.err = &store.Error{Err: context.Cause(ctx), Ambiguous: store.AsError(c.err).Ambiguous}
	}
	value, err = c.value, c.err
	if batch := s.next(own); batch != nil {
		go s.lane(own, batch)
	}
	return value, true, err
}

// open is how many calls want an answer. The caller holds mu.
func (s *sender) open() int { return s.waiting.n + s.sent.n }

// free says whether a call that has come may start a lane. The caller holds mu.
func (s *sender) free() bool {
	return s.lanes < s.crowded || s.lanes < s.usual && !s.crowd && s.waiting.n == 0
}

// await waits for c's answer.
func (s *sender) await(ctx context.Context, c *call) (value any, over bool, err error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		if s.leave(c) {
			return nil, false, &store.Error{Err: context.Cause(ctx), Ambiguous: true, Pending: true}
		}
		if !c.sent {
			return nil, true, &store.Error{Err: context.Cause(ctx)}
		}
	}
	return c.value, !c.left, c.err
}

// lane carries out batch after batch until none waits, over own if it is not nil.
func (s *sender) lane(own *line, batch []*call) {
	for {
		if batch != nil {
			s.carry(own, batch)
		}
		runtime.Gosched() // those who have an answer may have the next question
		batch = s.next(own)
		if batch == nil {
			return
		}
	}
}

// next returns what waits for the lane that has become free, or nil: then there
// is one lane less, and its line, if it has one, is free.
func (s *sender) next(own *line) []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes <= s.crowded+s.hurried || !s.crowd {
		if batch := s.take(); batch != nil {
			return batch
		}
	}
	if own != nil {
		s.lines = append(s.lines, own)
	}
	s.lanes--
	s.hurried = max(s.hurried-1, 0)
	s.running.Done()
	return nil
}

// take returns the calls that go together, or nil. The caller holds mu.
func (s *sender) take() []*call {
	n := min(s.waiting.n, callsMax)
	if n == 0 {
		return nil
	}
	batch := make([]*call, n)
	for i := range batch {
		c := s.waiting.first
		s.waiting.remove(c)
		c.sent, c.several = true, n > 1
		s.sent.add(c)
		batch[i] = c
	}
	return batch
}

// An outcome is what came of a call.
type outcome struct {
	call  *call
	value any
	err   error
}

// end gives the answers to those who wait for them. Nobody may use the calls
// afterwards.
func (s *sender) end(outcomes ...outcome) {
	var late []outcome
	s.mu.Lock()
	for _, o := range outcomes {
		c := o.call
		if c.left {
			late = append(late, o)
			continue
		}
		s.sent.remove(c)
		c.value, c.err = o.value, o.err
		if !c.carried {
			c.done <- struct{}{}
		}
	}
	s.mu.Unlock()
	for _, o := range late {
		if o.call.late != nil {
			o.call.late(o.value, o.err)
		}
	}
}

// unwanted appends what came of open questions that nobody waits for any more:
// nothing. It returns the others.
func (s *sender) unwanted(outcomes []outcome, open []piece) (_ []outcome, wanted []piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range open {
		if c := p.calls[0]; !p.several && c.left {
			outcomes = append(outcomes, outcome{call: c, err: &store.Error{Err: errBusy}})
		} else {
			wanted = append(wanted, p)
		}
	}
	return outcomes, wanted
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
