package lockmw

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A reporter that has ended does not go on telling a slow observer what waits in
// its queue, and takes no more.
func TestReporterEndsWithTheReportAtHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		r := newReporter([]func(context.Context, Event){func(context.Context, Event) {
			time.Sleep(time.Second)
			told.Add(1)
		}}, slog.New(slog.DiscardHandler))
		for range 100 {
			r.tellLater(t.Context(), Event{Kind: EventRenewed})
		}
		begin := time.Now()
		r.end(lastReports)
		if took := time.Since(begin); took != lastReports {
			t.Errorf("end took %v, want %v", took, lastReports)
		}
		r.tellLater(t.Context(), Event{Kind: EventRenewed})
		time.Sleep(time.Hour)
		if told.Load() != 1 {
			t.Errorf("told %d reports, want the one that was under way", told.Load())
		}
	})
}
