package lockmw

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/report"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
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
		l := &Locker{watchdog: newWatchdog(s), reports: report.New(slog.New(slog.DiscardHandler))}
		const leases, ttl, rounds = 1000, 30 * time.Second, 6
		for i := range leases {
			held := &tenure{
				locker: l, ttl: ttl, ref: store.Ref{Token: string(rune(i)), TTL: ttl},
				began: time.Now(), expiry: time.AfterFunc(time.Hour, func() {}),
			}
			l.watchdog.add(held, time.Now().Add(held.firstRenewal()))
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

var timedOut = &store.Error{Err: errors.New("timed out"), Reach: store.Silent, Ambiguous: true}

// faraway answers renewals after a while, if they may wait for that long, and those of
// keys that begin with "x" never. Each first letter is a server.
type faraway struct {
	renewing
	after time.Duration
	late  map[byte]int // renewals that had less time than that, by server
}

func (f *faraway) Renew(ctx context.Context, batch []store.Renewal) {
	wait := f.after
	for _, r := range batch {
		if r.Key[0] == 'x' {
			wait = time.Hour
		}
	}
	for i, r := range batch {
		wait := wait
		if r.Key[0] != 'x' { // answered, but the pipeline ends with the last of them
			wait = f.after
		}
		deadline, _ := ctx.Deadline()
		if time.Until(deadline) < wait {
			batch[i].Err = timedOut
		}
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flights++
	for i := range batch {
		if batch[i].Err != nil {
			f.late[batch[i].Key[0]]++
			continue
		}
		batch[i].Held = true
		f.renewed[batch[i].Key]++
	}
}

func (f *faraway) Close() error { return nil }

// wereLate returns how many renewals of a server had too little time.
func (f *faraway) wereLate(server byte) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.late[server]
}

func (f *faraway) Server(key string) string { return key[:1] }

func (f *faraway) Ping(ctx context.Context, key string, _ func(bool)) error {
	if key[0] != 'x' {
		return nil
	}
	<-ctx.Done()
	return timedOut
}

// watchedOver returns n leases whose keys begin with a letter, and how many are lost.
func watchedOver(l *Locker, n int, letter string, ttl time.Duration) (leases []*Lease, lost func() int) {
	for i := range n {
		held := &tenure{
			locker: l, ttl: ttl, ref: store.Ref{Key: letter + strconv.Itoa(i), TTL: ttl},
			began: time.Now(), grant: grant{since: now(), ttl: ttl},
		}
		lease := &Lease{
			locker: l, policy: Policy{TTL: ttl}, tenure: held, mu: &held.mu,
			start: time.Now(), stuckAt: time.Hour, cancel: func(error) {},
		}
		held.begin(lease)
		leases = append(leases, lease)
	}
	return leases, func() (n int) {
		for _, lease := range leases {
			if !lease.Valid() {
				n++
			}
		}
		return n
	}
}

// keeping runs test with a Locker over s.
func keeping(t *testing.T, s *faraway, test func(l *Locker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.renewed, s.late = make(map[string]int), make(map[byte]int)
		l := &Locker{
			reports: report.New(slog.New(slog.DiscardHandler)), log: slog.New(slog.DiscardHandler),
			waiters: waitqueue.NewSet(1, 1, false, nil),
		}
		watched, known := outage.Watch(s, func() {})
		l.outage, l.watchdog = known, newWatchdog(watched)
		test(l)
		l.watchdog.stop()
		_ = watched.Close()
	})
}

// A server that hangs costs the leases of the others nothing.
func TestLeasesOfAServerThatHangsDoNotHoldUpOthers(t *testing.T) {
	keeping(t, &faraway{after: time.Millisecond}, func(l *Locker) {
		const n, ttl = 10_000, 30 * time.Second
		_, lostThere := watchedOver(l, n/2, "x", ttl)
		_, lost := watchedOver(l, n, "a", ttl)
		time.Sleep(2 * ttl)
		if got := lost(); got > 0 {
			t.Errorf("%d of %d leases of a server that is well are lost", got, n)
		}
		if got := lostThere(); got != n/2 {
			t.Errorf("%d of %d leases of the server that hangs are lost", got, n/2)
		}
	})
}

// Leases with a short TTL, whose renewals have little time, do not take the time of
// others: their server may be too far away for the one, and not for the other.
func TestShortLeasesDoNotHurryOthers(t *testing.T) {
	s := &faraway{after: 50 * time.Millisecond}
	keeping(t, s, func(l *Locker) {
		const n, ttl = 100, 3 * time.Second
		_, lost := watchedOver(l, n, "a", ttl)
		for range 50 {
			watchedOver(l, n, "b", 220*time.Millisecond)
			time.Sleep(100 * time.Millisecond)
		}
		if got := lost(); got > 0 || s.wereLate('a') > 0 {
			t.Errorf("%d of %d leases are lost, %d of their renewals were late", got, n, s.wereLate('a'))
		}
		if s.wereLate('b') == 0 {
			t.Error("the short ones had time enough")
		}
	})
}
