package lockmw_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func TestStatsCountWhatIsHeldAndWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		l := testenv.Open(t, s.Client(t))
		want := func(when string, connected, subscribed bool, names map[string]lockmw.NameStats) {
			t.Helper()
			synctest.Wait()
			got := l.Stats()
			if got.Connected != connected || got.Subscribed != subscribed || !maps.Equal(got.Names, names) {
				t.Errorf("%s: %+v, want connected %v, subscribed %v, %v", when, got, connected, subscribed, names)
			}
		}
		want("at first", true, false, nil)

		pay := lockmw.Policy{Name: "pay", Prefix: "order:"}
		held := []*lockmw.Lease{
			mustAcquire(t, l, "1", pay), mustAcquire(t, l, "2", pay),
			mustAcquire(t, l, "3", lockmw.Policy{Prefix: "order:", Mode: lockmw.Shared}),
			mustAcquire(t, l, "4", lockmw.Policy{Prefix: "order:", Permits: 2}),
		}
		pay.Wait = time.Minute
		turns := make(chan *lockmw.Lease)
		for range 3 {
			go func() {
				if _, lease, err := l.Acquire(context.Background(), "1", pay); err == nil {
					turns <- lease
				}
			}()
		}
		time.Sleep(time.Second)
		want("held and waited for", true, true, map[string]lockmw.NameStats{"pay": {Held: 2, Waiting: 3}, "order:": {Held: 2}})

		mustRelease(t, held[0])
		next := <-turns
		want("after a hand-over", true, true, map[string]lockmw.NameStats{"pay": {Held: 2, Waiting: 2}, "order:": {Held: 2}})
		mustRelease(t, next)
		mustRelease(t, <-turns)
		mustRelease(t, <-turns)
		for _, lease := range held[1:] {
			mustRelease(t, lease)
		}
		want("all are released", true, true, nil)
	})
}

func TestStatsSayThatRedisIsAway(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	client, proxy := proxied(t, redistest.Shared(t))
	l, key := testenv.Open(t, client), redistest.Prefix(t)
	if !l.Stats().Connected {
		t.Error("not connected before the first command")
	}
	proxy.BlackHole(faultproxy.Both)
	lease := mustAcquire(t, l, key, lockmw.Policy{FailOpen: true})
	if s := l.Stats(); s.Connected || s.Subscribed || len(s.Names) > 0 {
		t.Errorf("one runs without its lock: %+v", s)
	}
	mustRelease(t, lease)
	proxy.Heal()
	await.Within(t, 20*time.Second, "it is connected again", func() bool { return l.Stats().Connected })
}

func TestEventsSayWhatTheLockIs(t *testing.T) {
	var seen events
	bubble(t, func(t *testing.T, _ *redistest.Mini, l *lockmw.Locker) {
		reader := mustAcquire(t, l, "k", lockmw.Policy{Name: "read", Mode: lockmw.Shared})
		go func() {
			time.Sleep(time.Second)
			mustRelease(t, reader)
		}()
		mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{Name: "permit", Permits: 3, Wait: time.Minute}))
		synctest.Wait()
		told := make(map[lockmw.EventKind]int)
		for _, kind := range []lockmw.EventKind{lockmw.EventAcquired, lockmw.EventContended, lockmw.EventHandedOver, lockmw.EventReleased} {
			for _, e := range seen.of(kind) {
				told[kind]++
				mode, permits, queued := lockmw.Shared, 0, false
				if e.Name == "permit" {
					mode, permits, queued = lockmw.Exclusive, 3, kind != lockmw.EventReleased
				}
				if e.Mode != mode || e.Permits != permits || e.Queued != queued || e.Reason != "" {
					t.Errorf("%v: %+v", kind, e)
				}
			}
		}
		if told[lockmw.EventAcquired] != 2 || told[lockmw.EventContended] != 1 || told[lockmw.EventHandedOver] != 1 || told[lockmw.EventReleased] != 2 {
			t.Errorf("told %v", told)
		}
	}, seen.option())
}

func TestStatsAreReadUntilClose(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	var read func() lockmw.Stats
	stopped := 0
	begin := func(r func() lockmw.Stats) func() { read = r; return func() { stopped++ } }
	silent := lockmw.WithStats(func(func() lockmw.Stats) func() { return nil })
	l := testenv.Open(t, c, lockmw.Options(lockmw.WithStats(begin), silent))
	lease := mustAcquire(t, l, "k", lockmw.Policy{Prefix: "p"})
	if s := read(); s.Names["p"].Held != 1 {
		t.Errorf("held: %+v", s)
	}
	mustRelease(t, lease)
	if stopped != 0 {
		t.Error("stopped before Close")
	}
	closesSoon(t, l)
	closesSoon(t, l)
	if s := read(); stopped != 1 || len(s.Names) != 0 {
		t.Errorf("after Close: stopped %d times, %+v", stopped, s)
	}
	for want, opt := range map[string]lockmw.Option{
		"lockmw: WithStats: the function is nil": lockmw.Options(lockmw.WithStats(nil)),
		"lockmw: Options: option 2 is nil":       lockmw.Options(silent, nil),
		"lockmw: ouch":                           lockmw.Options(lockmw.Failed(errors.New("ouch"))),
		"lockmw: Failed: the error is nil":       lockmw.Failed(nil),
	} {
		if _, err := lockmw.New(c, opt); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
