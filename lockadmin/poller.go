package lockadmin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lockmw/kit/lockmw"
)

const (
	// every is the time from one reading of all locks to the next, where there are few.
	every = time.Second

	// share is how much longer nothing is read than something: with many locks a reading
	// takes long, and Redis has other work.
	share = 3

	// tellEvery is how often pages are told what a reading has found so far.
	tellEvery = 200 * time.Millisecond
)

// A poller reads all locks again and again, for all pages that are open together.
type poller struct {
	table  *table
	again  chan struct{} // read at once
	cancel context.CancelFunc
	ended  chan struct{} // closed when it reads nothing any more
}

// streams are the pages that are open, and the poller that they share while there are any.
type streams struct {
	mu     sync.Mutex
	open   int
	poller *poller       // nil: no page is open
	before chan struct{} // closed when the last poller has ended; nil: there was none
}

// mostStreams is how many pages may be open at the same time.
const mostStreams = 100

// join returns the poller for one page more, or nil if there are too many. The page calls
// leave at the end.
func (c *console) join() *poller {
	s := &c.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == mostStreams {
		return nil
	}
	s.open++
	if s.poller == nil {
		ctx, cancel := context.WithCancel(context.Background())
		p := &poller{
			table: newTable(c.locks.Instance(), c.options.limit), again: make(chan struct{}, 1),
			cancel: cancel, ended: make(chan struct{}),
		}
		before := s.before
		s.poller, s.before = p, p.ended
		go func() {
			defer close(p.ended)
			if before != nil {
				<-before
			}
			c.readAll(ctx, p)
		}()
	}
	return s.poller
}

// leave ends what join began. The last page waits until nothing is read any more.
func (c *console) leave(p *poller) {
	s := &c.streams
	s.mu.Lock()
	s.open--
	last := s.open == 0
	if last {
		s.poller = nil
	}
	s.mu.Unlock()
	if last {
		p.cancel()
		<-p.ended
	}
}

// readAll reads all locks until ctx ends, or the Locker is closed.
func (c *console) readAll(ctx context.Context, p *poller) {
	logged := false
	for {
		began := time.Now()
		cut, err := c.read(ctx, p.table)
		took := time.Since(began)
		pause := max(every-took, share*took)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, lockmw.ErrClosed):
			p.table.fail("closed")
			return
		case err != nil:
			pause = every
			if !logged {
				c.options.logger.Warn("lockadmin: locks cannot be read; pages say that Redis cannot be reached", slog.Any("error", err))
			}
			p.table.fail("unreachable")
		default:
			p.table.finish(began, took+pause, cut)
		}
		logged = err != nil
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-p.again:
		}
		timer.Stop()
	}
}

// read reads all locks once, up to the limit.
func (c *console) read(ctx context.Context, t *table) (cut bool, err error) {
	t.begin()
	n, told := 0, time.Now()
	for info, err := range c.locks.List(ctx, "") {
		if err != nil {
			return false, err
		}
		if n == c.options.limit {
			return true, nil
		}
		n++
		t.put(info)
		if time.Since(told) > tellEvery {
			told = time.Now()
			t.publish()
		}
	}
	return false, nil
}

// noticed puts what was just read of one lock into the table, if a page is open.
func (c *console) noticed(info lockmw.Info) {
	s := &c.streams
	s.mu.Lock()
	p := s.poller
	s.mu.Unlock()
	if p == nil {
		return
	}
	p.table.put(info)
	p.table.publish()
	select {
	case p.again <- struct{}{}:
	default:
	}
}
