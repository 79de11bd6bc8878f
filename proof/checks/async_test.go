package checks

import (
	"context"
	"fmt"
	"testing"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// Releases that nobody awaits (Policy.AsyncRelease) are carried out all the same, whatever becomes of their connections, and
// whoever asks for the key next, in the same process, does not meet them.
func TestReleasesThatNobodyAwaits(t *testing.T) {
	besideOthers(t)
	s := redistest.Real(t) // of its own: it forgets its scripts
	policy := lockmw.Policy{TTL: patience, Wait: patience, AsyncRelease: true}
	t.Run("connections break", func(t *testing.T) {
		prefix, times := redistest.Prefix(t), record.Pick(5, 100)
		proxies, lockers := behindProxies(t, s, 1)
		l, watcher := lockers[0], testenv.Open(t, s.Client(t))
		for i := range times {
			key := fmt.Sprint(prefix, i)
			lease, err := acquire(l, key, policy)
			if err != nil {
				t.Fatal(err)
			}
			proxies[0].BlackHole(faultproxy.ToServer) // the release is lost on its way
			if err := lease.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
			proxies[0].Cut()
			proxies[0].Heal()
			await.Within(t, patience/3, "the lock comes free long before its TTL", func() bool {
				info, err := watcher.Inspect(context.Background(), key)
				return err == nil && !info.Held
			})
		}
		record.Add(t, record.Row{
			Name: "releases that nobody awaits, lost with their connections", Goal: "each lock comes free long before its TTL",
			Figure: fmt.Sprintf("%d locks, all of them", times), Met: true,
		})
	})
	t.Run("the next one asks at once", func(t *testing.T) {
		prefix, times := redistest.Prefix(t), record.Pick(20, 500)
		l := testenv.Open(t, s.Client(t))
		for i := range times {
			lease, err := acquire(l, prefix, policy)
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 { // the release has to be sent once more, and what comes behind it overtakes
				s.Client(t).ScriptFlush(context.Background())
			}
			if err := lease.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
			next, err := acquire(l, prefix, lockmw.Policy{TTL: patience})
			if err != nil {
				t.Fatalf("turn %d: its own process has the lock still: %v", i, err)
			}
			if err := release(next); err != nil {
				t.Fatal(err)
			}
		}
		record.Add(t, record.Row{
			Name: "calls right behind releases that nobody awaits", Goal: "none meets the lock of its own process",
			Figure: fmt.Sprintf("%d calls, none", times), Met: true,
		})
	})
}
