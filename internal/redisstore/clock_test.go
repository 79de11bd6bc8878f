package redisstore

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

// The tests of this file move the server's clock, so they run against an
// embedded Redis only.

// noon has so many digits that Lua's tostring would lose some.
var noon = time.UnixMicro(1763726400123457).UTC()

// A still is an embedded Redis whose clock moves only when it is told to.
type still struct {
	*testing.T
	mini   *redistest.Mini
	client *redis.Client
	at     time.Time
}

func newStill(t *testing.T) *still {
	t.Helper()
	s := &still{T: t, mini: redistest.Embedded(t), at: noon}
	s.mini.SetTime(noon)
	s.mini.ClockTTL(true) // TTLs count from noon on
	s.client = s.mini.Client(t)
	return s
}

// advance moves the clock. A step back puts the ends of all TTLs further away:
// to a real Redis they are moments on its clock. The embedded one counts them
// down, so it needs telling.
func (s *still) advance(d time.Duration) {
	s.at = s.at.Add(d)
	s.mini.SetTime(s.at)
	if d < 0 {
		for _, key := range s.mini.Keys() {
			s.mini.SetTTL(key, s.mini.TTL(key)-d)
		}
	}
}

func (s *still) micros() int64 { return s.at.UnixMicro() }

func (s *still) open() *probe { return open(s.T, s.client, "kit") }

// ttls returns the TTLs in milliseconds of four keys of the lock named k: of all but
// holders.
func (s *still) ttls() [4]int64 {
	s.Helper()
	var all [4]int64
	keys := (&Store{ns: "kit"}).keys("k")
	for i, key := range keys[:len(all)] {
		ttl, err := s.client.PTTL(context.Background(), key).Result()
		if err != nil {
			s.Fatal(err)
		}
		all[i] = ttl.Milliseconds()
		if ttl == -2 {
			all[i] = 0
		}
	}
	return all
}

func (s *still) wantTTLs(lock, queue, alive, fence int64) {
	s.Helper()
	if got, want := s.ttls(), [4]int64{lock, queue, alive, fence}; got != want {
		s.Errorf("TTLs of lock, queue, alive and fence = %d ms, want %d ms", got, want)
	}
}

func (s *still) wantEmpty() {
	s.Helper()
	if n := s.client.DBSize(context.Background()).Val(); n != 0 {
		s.Errorf("DBSIZE = %d, want 0: %q", n, s.client.Keys(context.Background(), "*").Val())
	}
}

func TestTTLsAreWhatTheCommentsSay(t *testing.T) {
	s := newStill(t)
	holder, waits := s.open(), s.open()
	r := holder.ref(30 * time.Second)
	holder.get(r, store.Try)
	s.wantTTLs(30_000, 0, 0, 0)

	s.advance(4 * time.Second)
	s.wantTTLs(26_000, 0, 0, 0)
	a := waits.ref(10 * time.Second)
	if left := waits.refused(a, store.Wait).Left; left != 26*time.Second {
		t.Errorf("Left = %v, want 26s", left)
	}
	s.wantTTLs(26_000, 10_000, 10_000, 0)

	s.advance(time.Second)
	holder.renew(r, true)
	s.wantTTLs(30_000, 9_000, 9_000, 0)
	s.advance(time.Second)
	waits.refused(a, store.Wait)
	s.wantTTLs(29_000, 10_000, 10_000, 0)

	holder.release(r, false, store.HandedOver)
	s.wantTTLs(1_000, 0, 10_000, 0)
	waits.get(a, store.Wait)
	s.wantTTLs(10_000, 0, 10_000, 1_000) // the fence's own microsecond has not passed
	s.advance(time.Second)
	waits.get(a, store.Try)
	s.wantTTLs(10_000, 0, 9_000, 0)
	waits.release(a, false, store.Freed)
	s.wantEmpty()
}

// A grant lasts for as long as its waiter needs to take it: less where nobody
// can see whether the waiter is there.
func TestAGrantLastsForTheWaitersWayOfHearing(t *testing.T) {
	for how, want := range map[string]int64{"v": 2_000, "u": 1_000, "p": 1_000} {
		for _, ttl := range []time.Duration{time.Minute, 700 * time.Millisecond} {
			s := newStill(t)
			holder, waits := s.open(), s.open()
			r := holder.ref(time.Minute)
			holder.get(r, store.Try)
			if how == "v" {
				waits.hear()
			}
			waits.subscribed.Store(how != "p")
			waits.cluster = how == "u"
			waits.refused(waits.ref(ttl), store.Wait)
			waits.cluster = false // it does not run one
			holder.release(r, false, store.HandedOver)
			s.wantTTLs(min(want, ttl.Milliseconds()), 0, 10_000, 1_001)
		}
	}
}

func TestTTLsAreRoundedUpToMilliseconds(t *testing.T) {
	for ttl, want := range map[time.Duration]int64{
		time.Nanosecond: 1, time.Millisecond: 1, 1500 * time.Microsecond: 2, time.Second - 1: 1000,
	} {
		s := newStill(t)
		s.open().get(store.Ref{Key: "k", Token: "p.t", TTL: ttl}, store.Try)
		s.wantTTLs(want, 0, 0, 0)
	}
}

func TestFencesIncreaseWithinOneMicrosecond(t *testing.T) {
	s := newStill(t)
	p, waits := s.open(), s.open()
	fence := s.micros()
	for range 5 {
		r := p.ref(time.Minute)
		p.wantFence(r, fence)
		p.wantFence(r, fence) // asked again
		next := waits.ref(time.Minute)
		waits.refused(next, store.Wait)
		p.release(r, false, store.HandedOver)
		waits.wantFence(next, fence+1)
		waits.release(next, false, store.Freed)
		fence += 2
	}
}

func TestTheFenceIsForgottenOnceTheClockHasPassedIt(t *testing.T) {
	s := newStill(t)
	p := s.open()
	r := p.ref(time.Minute)
	p.get(r, store.Try)
	s.advance(-time.Hour)
	p.release(r, false, store.Freed)
	s.wantTTLs(0, 0, 0, 3_601_000)
	s.advance(time.Hour + time.Second)
	s.wantEmpty()
}

// The clock steps back while the lock is held; whatever comes then, the next
// fence is higher. A fence must outlive not only its lock but its own moment.
func TestFencesIncreaseWhenTheClockIsSetBack(t *testing.T) {
	const ttl = 10 * time.Second
	for name, end := range map[string]func(s *still, p, waits *probe, r store.Ref){
		"release": func(_ *still, p, _ *probe, r store.Ref) { p.release(r, false, store.Freed) },
		"release, and later": func(s *still, p, _ *probe, r store.Ref) {
			p.release(r, false, store.Freed)
			s.advance(time.Minute)
		},
		"expiry": func(s *still, _, _ *probe, _ store.Ref) { s.advance(time.Hour + ttl + time.Millisecond) },
		"renewal and expiry": func(s *still, p, _ *probe, r store.Ref) {
			p.renew(r, true)
			s.advance(ttl + time.Millisecond)
		},
		"renewal, expiry, and later": func(s *still, p, _ *probe, r store.Ref) {
			p.renew(r, true)
			s.advance(time.Minute)
		},
		"question, expiry, and later": func(s *still, p, _ *probe, r store.Ref) {
			p.get(r, store.Wait)
			s.advance(time.Minute)
		},
		"hand-over, expiry, and later": func(s *still, p, waits *probe, r store.Ref) {
			waits.refused(waits.ref(ttl), store.Wait)
			p.release(r, false, store.HandedOver)
			s.advance(time.Minute)
		},
		"release in a while, and later": func(s *still, p, _ *probe, r store.Ref) {
			if _, _, err := p.Release(t.Context(), store.Give{Ref: r, Stay: time.Second}); err != nil {
				t.Error(err)
			}
			s.advance(time.Minute)
		},
		"release past a deaf waiter, and later": func(s *still, p, waits *probe, r store.Ref) {
			waits.subscribed.Store(true)
			waits.refused(waits.ref(ttl), store.Wait)
			p.release(r, false, store.Freed)
			s.advance(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []store.Kind{{}, {Shared: true}, {Permits: 1}} {
				s := newStill(t)
				p, waits := s.open(), s.open()
				r := p.ref(ttl)
				r.Kind = kind
				first := p.get(r, store.Try).Fence
				s.advance(-time.Hour)
				end(s, p, waits, r)
				if next := waits.get(waits.ref(ttl), store.Try).Fence; next <= first {
					t.Errorf("%+v: fence %d after %d, want a higher one", kind, next, first)
				}
			}
		})
	}
}

func TestAnswersCarryTheServersClock(t *testing.T) {
	s := newStill(t)
	p := s.open()
	r := p.ref(time.Minute)
	for _, r := range []store.Ref{r, r, p.ref(time.Minute)} {
		if got := p.ask(r, store.Wait).Clock; got != s.micros() {
			t.Errorf("Server = %d, want %d", got, s.micros())
		}
		s.advance(7 * time.Microsecond)
	}
}

func (p *probe) wantFence(r store.Ref, want int64) {
	p.Helper()
	if got := p.get(r, store.Try).Fence; got != want {
		p.Errorf("fence = %d, want %s exactly", got, strconv.FormatInt(want, 10))
	}
}
