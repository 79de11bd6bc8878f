package lockmw_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

var saysBack = regexp.MustCompile(`^level=INFO msg="lockmw: Redis is back" after=[23][.0-9]*s$`)

// Whoever reads in the log that Redis cannot be reached reads there when that is over, once,
// and is not told of the end of an outage of which the log said nothing.
func TestTheLogTellsTheEndOfAnOutage(t *testing.T) {
	for kind, o := range outages {
		for name, open := range map[string]bool{"refused": false, "FailOpen": true} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel() // each has a clock of its own
				log := new(logBuffer)
				wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
					back := func() (lines []string) {
						synctest.Wait() // the line is written
						return slices.DeleteFunc(log.lines(), func(line string) bool { return !strings.Contains(line, "Redis is back") })
					}
					last := func(d time.Duration, p lockmw.Policy) {
						began := time.Now()
						o.begin(w, m)
						time.AfterFunc(d, func() { endOutage(w, m) })
						for time.Since(began) < d {
							_, lease, err := l.Acquire(context.Background(), "k", p)
							if err != nil && !errors.Is(err, lockmw.ErrUnavailable) {
								t.Error(err)
							}
							if err == nil {
								_ = lease.Release(context.Background()) // it may need longer than it has, in an outage
							}
							time.Sleep(100 * time.Millisecond)
						}
						time.Sleep(time.Second)
					}
					patient := lockmw.Policy{Wait: time.Minute}
					mustRelease(t, mustAcquire(t, l, "k", patient))
					last(500*time.Millisecond, patient)
					if got := back(); len(got) > 0 {
						t.Errorf("of an outage that all calls have waited through the log says %q", got)
					}
					for n := 1; n <= 2; n++ {
						last(3100*time.Millisecond, lockmw.Policy{FailOpen: open})
						got := back()
						if len(got) != n || !saysBack.MatchString(got[n-1]) {
							t.Errorf("after outage %d the log says %q", n, got)
						}
					}
					last(500*time.Millisecond, patient)
					if got := back(); len(got) != 2 {
						t.Errorf("after an outage that all calls have waited through the log says %q", got)
					}
				}, log.option())
			})
		}
	}
}
