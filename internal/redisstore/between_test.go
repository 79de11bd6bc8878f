package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// What others may do between two commands of the question that takes a lock by SET. They
// return the highest fence that anybody was told meanwhile.
var meanwhile = map[string]func(s *still, other *probe, asks store.Ref) (fence int64){
	"it is deleted, and another takes it": func(s *still, other *probe, _ store.Ref) int64 {
		s.mini.Del("kit:{k}")
		return other.get(other.ref(time.Minute), store.Try).Fence
	},
	"it expires, and another takes it": func(s *still, other *probe, _ store.Ref) int64 {
		s.advance(501 * time.Millisecond)
		return other.get(other.ref(time.Minute), store.Try).Fence
	},
	"it is forced, and another takes it": func(s *still, other *probe, _ store.Ref) int64 {
		if err := other.ForceRelease(context.Background(), "k", store.Intervention{}); err != nil {
			s.Fatal(err)
		}
		return other.get(other.ref(time.Minute), store.Try).Fence
	},
	"it is forced, and another takes it and gives it back": func(s *still, other *probe, _ store.Ref) int64 {
		if err := other.ForceRelease(context.Background(), "k", store.Intervention{}); err != nil {
			s.Fatal(err)
		}
		r := other.ref(time.Minute)
		noteGrant(&r, other.get(r, store.Try))
		other.release(r, false, store.Freed)
		return r.Fence
	},
	"its clean-up overtakes it, and another takes it": func(_ *still, other *probe, asks store.Ref) int64 {
		other.release(asks, true, store.Freed)
		return other.get(other.ref(time.Minute), store.Try).Fence
	},
	"its token is asked for again": func(_ *still, other *probe, asks store.Ref) int64 {
		return other.get(asks, store.Try).Fence - 1 // it is the same grant, and the same fence
	},
	"all data are lost, and several take it": func(s *still, other *probe, _ store.Ref) int64 {
		s.mini.FlushAll()
		r := other.ref(time.Minute)
		r.Kind.Shared = true
		return other.get(r, store.Try).Fence
	},
	"it is deleted, and another takes it with others": func(s *still, other *probe, _ store.Ref) int64 {
		s.mini.Del("kit:{k}")
		r := other.ref(time.Minute)
		fences, err := other.AcquireAll(context.Background(), []store.Ref{r}, time.Time{}, nil)
		if err != nil || len(fences) != 1 {
			s.Fatalf("AcquireAll = %v, %v", fences, err)
		}
		return fences[0]
	},
	"the scripts are forgotten": func(s *still, _ *probe, _ store.Ref) int64 {
		if err := s.client.ScriptFlush(context.Background()).Err(); err != nil {
			s.Fatal(err)
		}
		return 0
	},
}

// Whatever comes between the commands: whoever is told that it has the lock has it, with
// a fence above all that were told before.
func TestOthersComeBetweenTheCommandsThatTakeALock(t *testing.T) {
	for name, act := range meanwhile {
		for _, before := range []string{"EXISTS", "TIME", "GET"} {
			for _, back := range []time.Duration{0, -400 * time.Millisecond} {
				t.Run(name+" before "+before+" "+back.String(), func(t *testing.T) {
					s := newStill(t)
					p, other := s.open(), s.open()
					p.release(p.take(), false, store.Freed) // now it knows the server and its clock
					other.release(other.take(), false, store.Freed)
					hook := newHook(s.mini)
					r := p.ref(500 * time.Millisecond)
					var told int64
					var got store.Answer
					s.advance(2 * time.Second) // no fence is kept any more
					p.noteClock(s.micros())
					hook.during(func() { got = p.ask(r, store.Try) }, func(cmd string) (more bool) {
						if cmd != before {
							return true
						}
						told = act(s, other, r)
						s.advance(back + 2*time.Microsecond)
						return false
					})
					value, _ := s.mini.Get("kit:{k}")
					ours := len(value) > len(r.Token) && value[:len(r.Token)] == r.Token
					if got.Granted != ours || got.Granted && got.Fence <= told {
						t.Errorf("granted %v with fence %d, want the one that holds %q, and a fence above %d", got.Granted, got.Fence, value, told)
					}
					if got.Granted {
						noteGrant(&r, got)
						p.renew(r, true)
						p.release(r, false, store.Freed)
					}
				})
			}
		}
	}
}

// A lock that was taken by SET does not tell its fence, and another forces it free. The
// next fence is higher, whether the clock stands still or is set back before that, by less
// than offMost or by more.
func TestForceGoesAboveAFenceThatTheLockDoesNotTell(t *testing.T) {
	for _, back := range []time.Duration{0, -time.Microsecond, -400 * time.Millisecond, -999 * time.Millisecond, -time.Hour} {
		s := newStill(t)
		p, other := s.open(), s.open()
		p.release(p.take(), false, store.Freed) // now it knows the server and its clock
		s.advance(2 * time.Second)              // no fence is kept any more
		p.noteClock(s.micros() - 500_000)       // it lags behind, so the lock says that it was taken earlier
		r := p.took(s.client)
		s.advance(back)
		if err := other.ForceRelease(t.Context(), "k", store.Intervention{}); err != nil {
			t.Fatal(err)
		}
		if fence := other.get(other.ref(time.Minute), store.Try).Fence; fence <= r.Fence {
			t.Errorf("set back by %v: fence %d after %d, want a higher one", -back, fence, r.Fence)
		}
	}
}

// However often locks are taken by force, fences do not run ahead of the clock by more than
// after one of them. After a loss of all data it is the clock by which they grow.
func TestForceDoesNotDriveFencesFarAheadOfTheClock(t *testing.T) {
	for name, take := range map[string]func(s *still, p *probe) store.Ref{
		"by SET":      func(s *still, p *probe) store.Ref { return p.took(s.client) },
		"by a script": func(_ *still, p *probe) store.Ref { return p.take() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStill(t)
			p, other := s.open(), s.open()
			p.release(p.take(), false, store.Freed) // now it knows the server and its clock
			s.advance(2 * time.Second)
			p.noteClock(s.micros())
			r := take(s, p)
			const most = 2_500_000 // OFF, TURNS, and more than the lock's µs may be off
			for range 20 {
				if ahead := r.Fence - s.micros(); ahead > most {
					t.Fatalf("a fence is ahead of the clock by %v", time.Duration(ahead)*time.Microsecond)
				}
				if err := other.ForceRelease(t.Context(), "k", store.Intervention{}); err != nil {
					t.Fatal(err)
				}
				next := p.ref(time.Minute)
				if noteGrant(&next, p.get(next, store.Try)); next.Fence <= r.Fence {
					t.Errorf("fence %d after %d, want a higher one", next.Fence, r.Fence)
				}
				r = next
			}
		})
	}
}
