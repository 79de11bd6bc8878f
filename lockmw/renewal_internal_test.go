package lockmw

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/renew"
	"github.com/lockmw/kit/internal/report"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

var timedOut = &store.Error{Err: errors.New("timed out"), Evidence: store.Silent, Ambiguous: true}

var _ store.Pinger = (*faraway)(nil) // otherwise nobody learns that a server hangs

// faraway answers renewals after a while, and those of keys that begin with "x" never. Each
// first letter is a server.
type faraway struct {
	store.Store
	after time.Duration
}

func (f *faraway) Renew(ctx context.Context, batch []store.Renewal) {
	wait := f.after
	for i, r := range batch {
		if batch[i].Held = r.Key[0] != 'x'; !batch[i].Held {
			wait, batch[i].Err = time.Hour, timedOut // the batch ends with the last of them
		}
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

func (f *faraway) Close() error { return nil }

func (f *faraway) Server(key string) string { return key[:1] }

func (f *faraway) Ping(ctx context.Context, key string, _ store.Progress) error {
	if key[0] != 'x' {
		return nil
	}
	<-ctx.Done()
	return timedOut
}

// holdMany has l hold n leases whose keys begin with a letter, and returns how many are lost.
func holdMany(l *Locker, n int, letter string, ttl time.Duration) (lost func() int) {
	var leases []*Lease
	for i := range n {
		held := &tenure{
			locker: l, ttl: ttl, ref: store.Ref{Key: letter + strconv.Itoa(i), TTL: ttl},
			began: time.Now(), trust: trust{promise: promise{now(), ttl}},
		}
		held.renewal = l.watchdog.Renewal(held, held.ref.Key)
		lease := &Lease{
			locker: l, policy: Policy{TTL: ttl}, has: held, mu: &held.mu,
			start: time.Now(), tooLong: tooLong{stuckAt: time.Hour}, work: work{cancel: func(error) {}},
		}
		held.begin(lease)
		leases = append(leases, lease)
	}
	return func() (n int) {
		for _, lease := range leases {
			if !lease.Valid() {
				n++
			}
		}
		return n
	}
}

// A server that hangs costs the leases of the others nothing.
func TestLeasesOfAServerThatHangsDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Locker{
			reporting: reporting{reports: report.New(slog.New(slog.DiscardHandler)), log: slog.New(slog.DiscardHandler)},
			waiters:   waitqueue.NewSet(1, 1, false, nil),
		}
		watched, known := outage.Watch(&faraway{after: time.Millisecond}, func(outage.Return) {})
		l.outage, l.watchdog = known, renew.New(watched)
		const n, ttl = 10_000, 30 * time.Second
		lostThere := holdMany(l, n/2, "x", ttl)
		lost := holdMany(l, n, "a", ttl)
		time.Sleep(2 * ttl)
		if got := lost(); got > 0 {
			t.Errorf("%d of %d leases of a server that is well are lost", got, n)
		}
		if got := lostThere(); got != n/2 {
			t.Errorf("%d of %d leases of the server that hangs are lost", got, n/2)
		}
		l.watchdog.Stop()
		_ = watched.Close()
	})
}
