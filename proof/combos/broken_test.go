package combos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/lockmw"
)

// mistaken is a Locker with a mistake.
type mistaken struct {
	Locker

	acquire func(ctx context.Context, keys []string, p lockmw.Policy) (Lease, []string, error)
	close   func(ctx context.Context) error
}

func (b mistaken) Acquire(ctx context.Context, keys []string, p lockmw.Policy) (Lease, []string, error) {
	if b.acquire == nil || keys[0] != "one" {
		return b.Locker.Acquire(ctx, keys, p)
	}
	return b.acquire(ctx, keys, p)
}

func (b mistaken) Close(ctx context.Context) error {
	if b.close == nil {
		return b.Locker.Close(ctx)
	}
	return errors.Join(b.close(ctx), b.Locker.Close(ctx))
}

// fake is a lease that no Redis knows.
type fake struct {
	ctx     context.Context
	invalid bool
}

func (f fake) Context() context.Context    { return f.ctx }
func (f fake) Valid() bool                 { return !f.invalid }
func (fake) ValidUntil() time.Time         { return time.Now().Add(time.Minute) }
func (fake) Ticket(time.Duration) string   { return "" }
func (fake) Release(context.Context) error { return nil }

// kept is a lease that is not given back.
type kept struct{ Lease }

func (kept) Release(context.Context) error { return nil }

// failed is a lease whose ticket is void when it is released.
type failed struct{ Lease }

func (f failed) Release(ctx context.Context) error {
	f.Lease.(*lockmw.Lease).MarkFailed()
	return f.Lease.Release(ctx)
}

// gone is a lease that says it was lost when it is released.
type gone struct{ Lease }

func (g gone) Release(ctx context.Context) error {
	return errors.Join(g.Lease.Release(ctx), lockmw.ErrLost)
}

// Each rule is broken once, by a Locker that does wrong what the rule is about,
// and the judge must say so. Nothing is injected, and a sound Locker breaks none.
func TestJudgeSeesEachMistake(t *testing.T) {
	plain := Combination{
		Group: Single, Server: systemServer, Site: plainSite, Trait: noTrait, Fault: "no fault", Load: 5, Shape: stays, Keys: oneKey,
		Form: mutex, Patience: twoSeconds, TTL: longTTL, Observer: quiet, Logger: quiet, Times: 1,
	}
	cancels, hands := plain, plain
	cancels.Shape, hands.HandsOn = cancelled, true
	type attempt = func(ctx context.Context, keys []string, p lockmw.Policy) (Lease, []string, error)
	always := func(lease Lease, open []string, err error) func(Locker) attempt {
		return func(Locker) attempt {
			return func(context.Context, []string, lockmw.Policy) (Lease, []string, error) { return lease, open, err }
		}
	}
	change := func(do func(Lease) Lease) func(Locker) attempt {
		return func(l Locker) attempt {
			return func(ctx context.Context, keys []string, p lockmw.Policy) (Lease, []string, error) {
				lease, open, err := l.Acquire(ctx, keys, p)
				if err == nil {
					lease = do(lease)
				}
				return lease, open, err
			}
		}
	}
	sleepFirst := func(d time.Duration) func(Locker) attempt {
		return func(l Locker) attempt {
			return func(ctx context.Context, keys []string, p lockmw.Policy) (Lease, []string, error) {
				time.Sleep(d)
				return l.Acquire(ctx, keys, p)
			}
		}
	}
	here := context.Background()
	for _, tc := range []struct {
		rule    string
		c       Combination
		acquire func(Locker) attempt
		close   func(context.Context) error
		never   bool // Close does nothing at all
	}{
		{rule: "", c: plain},
		{rule: "", c: hands},
		{rule: ruleTicket, c: hands, acquire: change(func(l Lease) Lease { return failed{l} })},
		{rule: ruleOverlap, c: plain, acquire: always(fake{ctx: here}, nil, nil)},
		{rule: ruleOpen, c: plain, acquire: always(fake{ctx: here}, []string{"one"}, nil)},
		{rule: ruleError, c: plain, acquire: always(nil, nil, fmt.Errorf("%w: for no reason", lockmw.ErrUnavailable))},
		{rule: ruleKeys, c: plain, acquire: change(func(l Lease) Lease { return kept{l} })},
		{rule: ruleCancel, c: cancels, acquire: func(l Locker) attempt {
			return func(ctx context.Context, keys []string, p lockmw.Policy) (Lease, []string, error) {
				<-ctx.Done()
				time.Sleep(1500 * time.Millisecond)
				return l.Acquire(ctx, keys, p)
			}
		}},
		{rule: ruleClose, c: plain, close: func(context.Context) error { time.Sleep(4500 * time.Millisecond); return nil }},
		{rule: ruleGoroutines, c: plain, never: true},
		{rule: ruleLease, c: plain, acquire: change(func(l Lease) Lease { return gone{l} })},
		{rule: ruleTold, c: plain, acquire: always(fake{ctx: here, invalid: true}, nil, nil)},
		{rule: ruleWait, c: plain, acquire: sleepFirst(3500 * time.Millisecond)},
		{rule: ruleProgress, c: plain, acquire: sleepFirst(1800 * time.Millisecond)},
		{rule: rulePanic, c: plain, acquire: func(Locker) attempt { panic("it panics") }},
	} {
		name := tc.rule
		if name == "" {
			name = "none"
		}
		t.Run(name, func(t *testing.T) {
			// The other two count goroutines, and would take other rounds' for their own.
			if tc.rule != "" && tc.rule != ruleGoroutines {
				t.Parallel()
			}
			opened := false
			var r *round
			open := func(client redis.UniversalClient, s Settings) (Locker, error) {
				if tc.rule != "" { // however little the machine has for us, the mistake is seen
					r.meter.Add(stalls.Stall{Began: r.began.Add(-time.Second), Ended: r.began.Add(time.Minute)})
				}
				sound, err := Open(client, s)
				b := mistaken{Locker: sound}
				if !opened { // the first is ours
					b.close = tc.close
				}
				opened = true
				if tc.acquire != nil {
					b.acquire = func(ctx context.Context, keys []string, p lockmw.Policy) (Lease, []string, error) {
						return tc.acquire(sound)(ctx, keys, p)
					}
				}
				if tc.never {
					t.Cleanup(func() { _ = sound.Close(here) })
					return unclosed{b}, err
				}
				return b, err
			}
			r = newRound(openSite(t, Single, systemServer), tc.c, open)
			r.exact = tc.rule != "" // the mistake is known; a sound Locker on a busy machine is excused
			r.run()
			seen := slices.ContainsFunc(r.violations, func(v Violation) bool { return v.Rule == tc.rule })
			if tc.rule == "" && len(r.violations) > 0 || tc.rule != "" && !seen {
				t.Errorf("violations = %v, want %q", r.violations, tc.rule)
			}
		})
	}
}

// unclosed is a Locker whose Close does nothing.
type unclosed struct{ mistaken }

func (unclosed) Close(context.Context) error { return nil }
