// Package report runs the user's code that is told what happens to locks: observers and
// a logger. They may be slow, block or panic.
//
// What a call brings about (its lease, its refusal, its release) the call reports
// itself, with Call, when it has nothing to do for others any more: an observer that
// blocks then holds up this call alone. What happens in the background, and every log
// line, goes into a queue, with Later. One goroutine runs what is in the queue, in order,
// and ends when it is empty. So no renewal, hand-over or clean-up waits for an observer
// or a logger.
//
// A Limiter says which lines are logged, where many alike would fill a disk.
package report

import (
	"context"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"
)

// mostReports bounds the queue, which grows while observers or the logger are
// slow. It has room for the events of 10,000 leases that are renewed together.
const mostReports = 1 << 14

// A Queue has the reports that are to be made. It is safe for concurrent use.
type Queue struct {
	handler slog.Handler // the user's
	least   slog.Level   // of the lines that go there

	panicked sync.Once

	mu      sync.Mutex
	queue   []func()
	running bool      // the goroutine runs
	ended   bool      // nothing is queued any more
	since   time.Time // when the goroutine began with its present report
	dropped int       // how many reports were dropped, since that was last logged
}

// New returns a Queue whose log lines go to logger. Where that is nil, only those of slog.LevelError are
// logged, which are for somebody to mend: to the logger that is slog.Default() now.
func New(logger *slog.Logger) *Queue {
	if logger == nil {
		return &Queue{handler: slog.Default().Handler(), least: slog.LevelError}
	}
	return &Queue{handler: logger.Handler(), least: math.MinInt}
}

// Logger returns a logger whose lines go through the queue.
func (q *Queue) Logger() *slog.Logger {
	if q.handler == slog.DiscardHandler {
		return slog.New(q.handler)
	}
	return slog.New(queueHandler{q, q.handler, q.least})
}

// Shouting is Logger for lines that are logged also where nobody has given a logger.
func (q *Queue) Shouting() *slog.Logger {
	if q.handler == slog.DiscardHandler {
		return slog.New(q.handler)
	}
	return slog.New(queueHandler{q, q.handler, math.MinInt})
}

// Call runs f, which calls the user's code, in the calling goroutine. A panic ends
// there; the first one is logged.
func (q *Queue) Call(f func()) {
	defer func() {
		if cause := recover(); cause != nil {
			stack := string(debug.Stack())
			q.panicked.Do(func() {
				q.Logger().Error("lockmw: an observer or the logger panicked; further panics are not logged",
					"panic", cause, "stack", stack)
			})
		}
	}()
	f()
}

// Later puts a report into the queue. It does not block. Where too many are in the queue
// already the report is dropped; the log says later how many were.
func (q *Queue) Later(report func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.ended:
		return
	case len(q.queue) >= mostReports:
		q.dropped++
		return
	}
	q.queue = append(q.queue, report)
	if !q.running {
		q.running, q.since = true, time.Now()
		go q.run()
	}
}

// run tells what is in the queue.
func (q *Queue) run() {
	empty := false
	defer func() {
		if !empty { // runtime.Goexit in the user's code
			go q.run()
		}
	}()
	for {
		report := q.next()
		if report == nil {
			empty = true
			return
		}
		q.Call(report)
	}
}

// next returns the next report. When there is none run must end.
func (q *Queue) next() (report func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since = time.Now()
	switch {
	case len(q.queue) > 0:
		report, q.queue[0] = q.queue[0], nil
		q.queue = q.queue[1:]
	case q.dropped > 0:
		dropped := q.dropped
		q.dropped = 0
		report = func() {
			if q.least > slog.LevelWarn {
				return
			}
			slog.New(q.handler).Warn("lockmw: observers or the logger are too slow; events and log lines were dropped", "dropped", dropped)
		}
	default:
		q.queue, q.running = nil, false
	}
	return report
}

// Flush waits until all that is in the queue now has been told, for a limit at
// most, and not at all when a report takes longer than that already.
func (q *Queue) Flush(limit time.Duration) {
	q.flush(limit, func() bool { return true })
}

// End waits until all that is in the queue, and what its reports put there, has been told,
// for a limit at most, and drops the rest: the goroutine ends with the report that it is at.
// What is reported later is dropped, too.
func (q *Queue) End(limit time.Duration) {
	q.flush(limit, func() bool { return len(q.queue) == 0 })
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended, q.queue, q.dropped = true, nil, 0
}

// flush is Flush, which goes on with what has come into the queue meanwhile until done, which
// is called under q.mu, says that this is enough.
func (q *Queue) flush(limit time.Duration, done func() bool) {
	q.mu.Lock()
	if !q.running || time.Since(q.since) > limit {
		q.mu.Unlock()
		return
	}
	told := make(chan struct{})
	var mark func()
	mark = func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		switch {
		case q.ended:
		case done():
			close(told)
		default:
			q.queue = append(q.queue, mark)
		}
	}
	q.queue = append(q.queue, mark)
	q.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-told:
	case <-timer.C:
	}
}

// A queueHandler hands log lines to the user's handler from the queue.
type queueHandler struct {
	reports *Queue
	user    slog.Handler
	least   slog.Level
}

// Enabled implements slog.Handler. The user's is asked when the line is told.
func (h queueHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.least
}

// Handle implements slog.Handler.
func (h queueHandler) Handle(ctx context.Context, line slog.Record) error {
	line = line.Clone()
	h.reports.Later(func() {
		if h.user.Enabled(ctx, line.Level) {
			_ = h.user.Handle(ctx, line) // there is nobody to tell
		}
	})
	return nil
}

// WithAttrs implements slog.Handler.
func (h queueHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return queueHandler{h.reports, h.user.WithAttrs(attrs), h.least}
}

// WithGroup implements slog.Handler.
func (h queueHandler) WithGroup(name string) slog.Handler {
	return queueHandler{h.reports, h.user.WithGroup(name), h.least}
}
