package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A lock is taken by force when Redis has granted it, and before the holder's process has the
// answer. The message about that comes first. Whoever has the lease then is told all the same, and why,
// and not at the renewal after a third of the TTL.
func TestALockTakenByForceBeforeItsAnswerCame(t *testing.T) {
	for range 20 {
		if takenBeforeItsAnswer(t) {
			return
		}
	}
	t.Error("its command took too long each time")
}

// takenBeforeItsAnswer is the test, unless the machine is so slow that the call gives its command up: then it returns false.
func takenBeforeItsAnswer(t *testing.T) bool {
	t.Helper()
	s, key := redistest.Shared(t), redistest.Prefix(t)
	client, proxy := proxied(t, s)
	l, other := testenv.Open(t, client), testenv.Open(t, s.Client(t))
	for range 100 { // one connection is busier than the one of the subscription
		mustRelease(t, mustAcquire(t, l, key, patient))
	}
	c := s.Client(t)
	channel := "lock:grants:" + l.Instance()
	await.Within(t, 20*time.Second, "it listens", func() bool {
		return c.PubSubNumSub(context.Background(), channel).Val()[channel] == 1
	})
	heard := c.Subscribe(context.Background(), channel)
	defer heard.Close()
	if _, err := heard.Receive(context.Background()); err != nil {
		t.Fatal(err)
	}

	busy := proxy.Busiest()
	busy.Stall(faultproxy.ToClient)
	got, asked := make(chan *lockmw.Lease, 1), time.Now()
	go func() {
		_, lease, err := l.Acquire(context.Background(), key, patient)
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	await.Within(t, 20*time.Second, "Redis has granted it", func() bool {
		return c.Exists(context.Background(), "lock:{"+key+"}").Val() == 1
	})
	if err := other.ForceReleaseAs(context.Background(), key, incident42); err != nil {
		t.Fatal(err)
	}
	for range 2 { // why, and that
		if _, err := heard.ReceiveMessage(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	second := mustAcquire(t, other, key, patient)
	late := time.Since(asked) > 900*time.Millisecond // a command has a second
	busy.Heal()
	if late { // it may have asked again, and wait for the second one
		mustRelease(t, second)
	}
	first := <-got
	if first == nil {
		return true
	}
	if late {
		_ = first.Release(context.Background())
		return false
	}
	select {
	case <-first.Context().Done():
		wantRevoked(t, "the cause", context.Cause(first.Context()), incident42)
	case <-time.After(5 * time.Second):
		t.Errorf("not told; valid for %v", time.Until(first.ValidUntil()))
	}
	if err := first.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("release = %v, want ErrLost", err)
	}
	mustRelease(t, second)
	return true
}
