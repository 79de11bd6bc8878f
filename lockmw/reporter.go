package lockmw

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// mostReports bounds the queue, which grows while observers or the logger are
	// slow. It has room for the events of 10,000 leases that are renewed together.
	mostReports = 1 << 14

	// reportPatience is how long a call waits at most until observers know what
	// happened to it before.
	reportPatience = 20 * time.Millisecond

	// lastReports is how long Close waits at most until all is told.
	lastReports = 500 * time.Millisecond
)

// A reporter tells the observers and the logger, which are the user's: they may
// be slow, block or panic.
//
// What a call brings about (its lease, its refusal, its release) the call tells
// itself, with tell, when it has nothing to do for others any more: an observer
// that blocks then holds up this call alone. What happens in the background, and
// every log line, goes into a queue, with later. One goroutine tells what is in
// the queue, in order, and ends when it is empty. So no renewal, hand-over or
// clean-up waits for an observer or a logger.
type reporter struct {
	observers []func(context.Context, Event)
	handler   slog.Handler // the user's

	panicked sync.Once

	mu      sync.Mutex
	queue   []func()
	telling bool      // the goroutine runs
	ended   bool      // nothing is queued any more
	since   time.Time // when the goroutine began with its present report
	dropped int       // how many reports were dropped, since that was last logged
}

func newReporter(observers []func(context.Context, Event), logger *slog.Logger) *reporter {
	return &reporter{observers: observers, handler: logger.Handler()}
}

// logger returns a logger whose lines go through the queue.
func (r *reporter) logger() *slog.Logger {
	if r.handler == slog.DiscardHandler {
		return slog.New(r.handler)
	}
	return slog.New(queueHandler{r, r.handler})
}

// tell tells the observers of e, in the calling goroutine.
func (r *reporter) tell(ctx context.Context, e Event) {
	for _, observer := range r.observers {
		r.call(func() { observer(ctx, e) })
	}
}

// tellLater has the observers told of e from the queue.
func (r *reporter) tellLater(ctx context.Context, e Event) {
	if len(r.observers) > 0 {
		r.later(func() { r.tell(ctx, e) })
	}
}

// call calls the user's code. A panic ends there; the first one is logged.
func (r *reporter) call(f func()) {
	defer func() {
		if cause := recover(); cause != nil {
			stack := string(debug.Stack())
			r.panicked.Do(func() {
				r.logger().Error("lockmw: an observer or the logger panicked; further panics are not logged",
					"panic", cause, "stack", stack)
			})
		}
	}()
	f()
}

// later puts a report into the queue. It does not block.
func (r *reporter) later(report func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		return
	case len(r.queue) >= mostReports:
		r.dropped++
		return
	}
	r.queue = append(r.queue, report)
	if !r.telling {
		r.telling, r.since = true, time.Now()
		go r.run()
	}
}

// run tells what is in the queue.
func (r *reporter) run() {
	empty := false
	defer func() {
		if !empty { // runtime.Goexit in the user's code
			go r.run()
		}
	}()
	for {
		report := r.next()
		if report == nil {
			empty = true
			return
		}
		r.call(report)
	}
}

// next returns the next report. When there is none run must end.
func (r *reporter) next() (report func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Now()
	switch {
	case len(r.queue) > 0:
		report, r.queue[0] = r.queue[0], nil
		r.queue = r.queue[1:]
	case r.dropped > 0:
		dropped := r.dropped
		r.dropped = 0
		report = func() {
			slog.New(r.handler).Warn("lockmw: observers or the logger are too slow; events and log lines were dropped", "dropped", dropped)
		}
	default:
		r.queue, r.telling = nil, false
	}
	return report
}

// flush waits until all that is in the queue now has been told, for a limit at
// most, and not at all when a report takes longer than that already.
func (r *reporter) flush(limit time.Duration) {
	r.mu.Lock()
	if !r.telling || time.Since(r.since) > limit {
		r.mu.Unlock()
		return
	}
	told := make(chan struct{})
	r.queue = append(r.queue, func() { close(told) })
	r.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-told:
	case <-timer.C:
	}
}

// end waits until all that is in the queue has been told, for a limit at most, and
// drops the rest: the goroutine ends with the report that it is at. What is
// reported later is dropped, too.
func (r *reporter) end(limit time.Duration) {
	r.flush(limit)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.queue, r.dropped = true, nil, 0
}

// A queueHandler hands log lines to the user's handler from the queue.
type queueHandler struct {
	reports *reporter
	user    slog.Handler
}

// Enabled implements slog.Handler. The user's is asked when the line is told.
func (queueHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h queueHandler) Handle(ctx context.Context, line slog.Record) error {
	line = line.Clone()
	h.reports.later(func() {
		if h.user.Enabled(ctx, line.Level) {
			_ = h.user.Handle(ctx, line) // there is nobody to tell
		}
	})
	return nil
}

// WithAttrs implements slog.Handler.
func (h queueHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return queueHandler{h.reports, h.user.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h queueHandler) WithGroup(name string) slog.Handler {
	return queueHandler{h.reports, h.user.WithGroup(name)}
}
