package report

import (
	"bytes"
	"log/slog"
	"strings"
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

// The log line about an observer that panics at the last event is told, and what it logs itself.
func TestAQueueEndsWithWhatItsReportsHavePutThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		q := New(slog.New(slog.NewTextHandler(&log, nil)))
		q.Later(func() {
			time.Sleep(time.Millisecond) // End has begun
			q.Later(func() { q.Logger().Info("put there") })
			panic("an observer's")
		})
		q.End(time.Second)
		for _, want := range []string{"an observer or the logger panicked", "put there"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%q is not in the log: %s", want, log.String())
			}
		}
		q.End(time.Second) // there is nothing to wait for
	})
}

// Reports that have others follow them for ever hold up nobody for longer than the limit.
func TestAQueueEndsThoughReportsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 500 * time.Millisecond
		q := New(slog.New(slog.DiscardHandler))
		var again func()
		again = func() {
			time.Sleep(time.Millisecond)
			q.Later(again)
		}
		q.Later(again)
		begin := time.Now()
		q.End(limit)
		if took := time.Since(begin); took != limit {
			t.Errorf("End took %v, want %v", took, limit)
		}
		time.Sleep(time.Second) // the report at hand ends
	})
}
