package outage

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// The end of an outage says whether the log has told of it: while the server did not answer,
// also before that counted as an outage, and not before an earlier answer.
func TestTheEndOfAnOutageSaysWhetherItWasTold(t *testing.T) {
	for name, tc := range map[string]struct {
		told func(o *Outage, s *server)
		want bool
	}{
		"nobody is told": {func(*Outage, *server) {}, false},
		"of another server": {func(o *Outage, _ *server) {
			o.of("b").sent("b")
			o.Told("b")
		}, false},
		"of a server that answers": {func(o *Outage, s *server) {
			s.sent("a")
			s.ended(context.Background(), tooFew)
			o.Told("a")
		}, false},
		"and then it answers": {func(o *Outage, s *server) {
			s.sent("a")
			s.sent("a")
			time.Sleep(20 * time.Millisecond)
			o.Told("a")
			s.sent("a")
			for range 3 {
				s.ended(context.Background(), nil)
			}
		}, false},
		"of a command that its caller has left": {func(o *Outage, s *server) {
			left, cancel := context.WithCancel(context.Background())
			cancel()
			s.sent("a")
			time.Sleep(20 * time.Millisecond)
			s.ended(left, &store.Error{Err: context.Canceled, Pending: true})
			o.Told("a")
		}, true},
		"in doubt": {func(o *Outage, s *server) {
			s.sent("a")
			s.ended(context.Background(), refused)
			o.Told("a")
		}, true},
		"suspected": {func(o *Outage, s *server) {
			s.sent("a")
			time.Sleep(DoubtedFor)
			o.Told("a")
		}, true},
		"away": {func(o *Outage, s *server) {
			s.sent("a")
			time.Sleep(2 * AwayAfter)
			o.Told("a")
			o.Told("a")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
				var ends []Return
				o.back = func(r Return) {
					if r.Server == "a" {
						ends = append(ends, r)
					}
				}
				s := o.of("a")
				p.mute.Store(true)
				tc.told(o, s)
				s.sent("a")
				began := time.Now()
				time.Sleep(3 * time.Second)
				p.mute.Store(false)
				time.Sleep(time.Second)
				synctest.Wait()
				if len(ends) != 1 || ends[0].Told != tc.want || ends[0].After < time.Since(began)-2*time.Second {
					t.Errorf("%+v, want one end, told: %t", ends, tc.want)
				}
			})
		})
	}
}
