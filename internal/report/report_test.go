package report

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A Queue that has ended does not go on with the slow reports that wait in it, and takes
// no more.
func TestAQueueEndsWithTheReportAtHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 500 * time.Millisecond
		var told atomic.Int32
		slow := func() {
			time.Sleep(time.Second)
			told.Add(1)
		}
		q := New(slog.New(slog.DiscardHandler))
		for range 100 {
			q.Later(slow)
		}
		begin := time.Now()
		q.End(limit)
		if took := time.Since(begin); took != limit {
			t.Errorf("End took %v, want %v", took, limit)
		}
		q.Later(slow)
		time.Sleep(time.Hour)
		if told.Load() != 1 {
			t.Errorf("told %d reports, want the one that was under way", told.Load())
		}
	})
}
