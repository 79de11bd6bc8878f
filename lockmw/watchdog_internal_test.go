package lockmw

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// renewing grants every renewal.
type renewing struct {
	store.Store
	mu      sync.Mutex
	flights int
	renewed map[string]int
}

func (r *renewing) Renew(_ context.Context, batch []store.Renewal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flights++
	for i := range batch {
		batch[i].Held = true
		r.renewed[batch[i].Token]++
	}
}

// Leases that are due one shortly after the other go together, and none so early
// that it costs renewals.
func TestRenewalsRideAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &renewing{renewed: make(map[string]int)}
		l := &Locker{watchdog: newWatchdog(s), reports: newReporter(nil, slog.New(slog.DiscardHandler))}
		const leases, ttl, rounds = 1000, 30 * time.Second, 6
		for i := range leases {
			lease := &Lease{
				locker: l, policy: Policy{TTL: ttl}, ref: store.Ref{Token: string(rune(i)), TTL: ttl},
				start: time.Now(), stuckAt: time.Hour, expiry: time.AfterFunc(time.Hour, func() {}),
			}
			l.watchdog.add(lease, lease.firstRenewal())
		}
		time.Sleep(rounds * ttl / 3)
		l.watchdog.stop()
		synctest.Wait()
		if most := rounds * leases / 10; s.flights > most {
			t.Errorf("%d flights, want at most %d", s.flights, most)
		}
		t.Logf("%d flights", s.flights)
		for token, n := range s.renewed {
			if n < rounds-1 || n > rounds+1 {
				t.Errorf("lease %q was renewed %d times in %d thirds of its TTL", token, n, rounds)
			}
		}
		if len(s.renewed) != leases {
			t.Errorf("%d leases were renewed", len(s.renewed))
		}
	})
}
