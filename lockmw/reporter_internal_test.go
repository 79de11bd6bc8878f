package lockmw

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// What is dropped while observers are slow is counted in a log line.
func TestReportsBeyondTheBoundAreCounted(t *testing.T) {
	lines := make(chan slog.Record, 10)
	r := newReporter(nil, slog.New(chanHandler{lines: lines}))
	blocked, free := make(chan struct{}), make(chan struct{})
	r.later(func() { close(blocked); <-free })
	<-blocked
	const tooMany = 100
	last := make(chan int, 1)
	for i := range mostReports + tooMany {
		r.later(func() {
			select {
			case <-last:
			default:
			}
			last <- i
		})
	}
	began := time.Now()
	r.flush(time.Millisecond) // it is stuck: nobody waits long
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("flush took %v", took)
	}
	close(free)
	line := <-lines
	var dropped int64
	line.Attrs(func(a slog.Attr) bool { dropped = a.Value.Int64(); return true })
	if dropped != tooMany {
		t.Errorf("%d were dropped, want %d", dropped, tooMany)
	}
	if i := <-last; i != mostReports-1 {
		t.Errorf("the last that was told is number %d, want %d", i, mostReports-1)
	}
}

// A chanHandler sends log lines to a channel.
type chanHandler struct {
	slog.Handler
	lines chan slog.Record
}

func (chanHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h chanHandler) Handle(_ context.Context, r slog.Record) error {
	h.lines <- r
	return nil
}
