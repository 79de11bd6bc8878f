package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// The tests here hold the times that docs/policy.md gives for an outage, where no other
// test does.

// A call in an outage's first second, by a policy that fails closed.
func TestTheFirstSecondOfAnOutage(t *testing.T) {
	for kind, o := range outages {
		for name, tc := range map[string]struct {
			wait            time.Duration
			atLeast, atMost time.Duration
		}{
			"no Wait":    {0, o.sure, 1250 * time.Millisecond},
			"Wait 100ms": {100 * time.Millisecond, max(100*time.Millisecond, o.sure), 350 * time.Millisecond},
			"Wait 500ms": {500 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond},
			"Wait 2s":    {2 * time.Second, time.Second, 1250 * time.Millisecond},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
					p := lockmw.Policy{Wait: tc.wait}
					mustRelease(t, mustAcquire(t, l, "k", p))
					o.begin(w, m)
					wantUnavailable(t, l, p, tc.atLeast, tc.atMost)
				})
			})
		}
	}
}

// Whoever waits for a lock that somebody holds when Redis goes away.
func TestWaitersAreToldOfAnOutage(t *testing.T) {
	for kind, o := range outages {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, FailOpen %t", kind, open), func(t *testing.T) {
				wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
					held := mustAcquire(t, l, "k", lockmw.Policy{})
					var began time.Time
					var wg sync.WaitGroup
					for range 20 {
						wg.Go(func() {
							_, lease, err := l.Acquire(context.Background(), "k", lockmw.Policy{Wait: time.Hour, FailOpen: open})
							if after := time.Since(began); after > 1250*time.Millisecond {
								t.Errorf("told %v after the outage began", after)
							}
							switch {
							case !open && !errors.Is(err, lockmw.ErrUnavailable):
								t.Errorf("err = %v, want ErrUnavailable", err)
							case open && (err != nil || lease.Fence() != 0):
								t.Errorf("%v, %v, want to run without the lock", lease, err)
							case open:
								mustRelease(t, lease)
							}
						})
					}
					time.Sleep(3 * time.Second)
					began = time.Now()
					o.begin(w, m)
					wg.Wait()
					endOutage(w, m)
					mustRelease(t, held)
				})
			})
		}
	}
}

// Holders are told in time, and only if the outage lasts.
func TestHoldersInAnOutage(t *testing.T) {
	for kind, o := range outages {
		for _, lasts := range []time.Duration{10 * time.Second, time.Hour} {
			t.Run(fmt.Sprint(kind, " for ", lasts), func(t *testing.T) {
				wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
					var leases []*lockmw.Lease // of all ages: they are renewed every 9 to 11 s
					for range 25 {
						leases = append(leases, mustAcquire(t, l, time.Now().String(), lockmw.Policy{}))
						time.Sleep(500 * time.Millisecond)
					}
					began := time.Now()
					o.begin(w, m)
					if lasts < time.Minute {
						time.Sleep(lasts)
						endOutage(w, m)
						time.Sleep(time.Minute)
						for _, lease := range leases {
							mustRelease(t, lease)
						}
						return
					}
					var wg sync.WaitGroup
					for _, lease := range leases {
						wg.Go(func() {
							<-lease.Context().Done()
							after := time.Since(began)
							if after < 15*time.Second || after > 27*time.Second || !errors.Is(context.Cause(lease.Context()), lockmw.ErrLost) {
								t.Errorf("told %v after the outage began: %v", after, context.Cause(lease.Context()))
							}
						})
					}
					wg.Wait()
					endOutage(w, m)
				})
			})
		}
	}
}

// The work is done, and its lock cannot be given back.
func TestAReleaseInAnOutageIsBounded(t *testing.T) {
	for kind, o := range outages {
		t.Run(kind, func(t *testing.T) {
			wired(t, func(t *testing.T, w *wire, m *redistest.Mini, l *lockmw.Locker) {
				early, late := mustAcquire(t, l, "early", lockmw.Policy{}), mustAcquire(t, l, "late", lockmw.Policy{})
				o.begin(w, m)
				for _, lease := range []*lockmw.Lease{early, late} {
					began := time.Now()
					if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrUnavailable) {
						t.Errorf("%v, want ErrUnavailable", err)
					}
					if after := time.Since(began); after > 1100*time.Millisecond {
						t.Errorf("Release took %v", after)
					}
					time.Sleep(3 * time.Second)
				}
				endOutage(w, m)
				wantLocked(t, l, lockmw.Policy{}, time.Second)
				began := time.Now()
				for _, key := range []string{"early", "late"} {
					mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{Wait: time.Minute}))
				}
				if after := time.Since(began); after > 5*time.Second {
					t.Errorf("given back %v after locks are taken again", after)
				}
			})
		})
	}
}
