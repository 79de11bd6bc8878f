package lockmw

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A reporter that has ended does not go on telling a slow observer what waits in
// its queue, and takes no more.
func TestReporterEndsWithTheReportAtHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		r := newReporter([]func(context.Context, Event){func(context.Context, Event) {
			time.Sleep(time.Second)
			told++
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
		if told != 1 {
			t.Errorf("told %d reports, want the one that was under way", told)
		}
	})
}
