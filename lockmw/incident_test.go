package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// incidents returns what is kept for operators, without times.
func incidents(l *lockmw.Locker) []recent.Incident {
	all, _ := seam.Recent(l).Newest()
	for i := range all {
		all[i].At, all[i].Waited, all[i].Held = time.Time{}, 0, 0
	}
	return all
}

// What operators are shown is kept without an observer: who had the lock that was refused,
// and why a lease ended, without a text of Redis's.
func TestIncidentsAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		a, b := testenv.Open(t, s.Client(t)), testenv.Open(t, s.Client(t))
		p := lockmw.Policy{Name: "orders", Prefix: "order:"}
		lease := mustAcquire(t, a, "7", p)
		if _, _, err := b.Acquire(context.Background(), "7", p); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Fatal(err)
		}
		want := recent.Incident{Kind: "refused", Name: "orders", Key: "order:7", Reason: lockmw.CodeBusy, Holder: a.Instance()}
		if got := incidents(b); len(got) != 1 || got[0] != want {
			t.Errorf("kept: %+v, want %+v", got, want)
		}
		if got := incidents(a); len(got) != 0 {
			t.Errorf("kept by who was not refused: %+v", got)
		}
		if err := b.ForceRelease(context.Background(), "order:7"); err != nil {
			t.Fatal(err)
		}
		<-lease.Context().Done()
		want = recent.Incident{Kind: "lost", Name: "orders", Key: "order:7", Reason: "forgotten by Redis, or given to others"}
		await.Within(t, time.Minute, "the loss is kept", func() bool {
			got := incidents(a)
			return len(got) == 1 && got[0] == want
		})
		_ = lease.Release(context.Background())
	})
}

func TestIncidentsTellOfWorkThatIsStuckOrRunsWithoutItsLock(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		l := testenv.Open(t, s.Client(t))
		slow := mustAcquire(t, l, "slow", lockmw.Policy{MaxHold: time.Second})
		<-slow.Context().Done()
		await.Within(t, time.Minute, "it is kept that it hangs", func() bool { return len(incidents(l)) == 1 })
		mustRelease(t, slow)
		s.SetError(loading)
		open := mustAcquire(t, l, "open", lockmw.Policy{FailOpen: true})
		mustRelease(t, open)
		got := incidents(l)
		want := []recent.Incident{
			{Kind: "failed open", Key: "open", Reason: lockmw.CodeBackendUnavailable},
			{Kind: "stuck", Key: "slow", Reason: "longer than MaxHold"},
		}
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("kept: %+v, want %+v", got, want)
		}
	})
}
