package lockmw_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// A spent context panics in Value once it is, as that of a request may which its framework
// has taken back.
type spent struct {
	context.Context
	is *atomic.Bool
}

func (s spent) Value(key any) any {
	if s.is.Load() {
		panic("spent")
	}
	return s.Context.Value(key)
}

// A caller whose context panics when the lock is passed on to it takes nobody along: the next
// one has the lock, and Close ends.
func TestAContextThatPanicsInTheMiddleOfATenure(t *testing.T) {
	s, key := redistest.Shared(t), redistest.Prefix(t)
	l, err := lockmw.New(s.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, mustAcquire(t, l, key, patient))
	channel, c := "lock:grants:"+l.Instance(), s.Client(t)
	await.Within(t, 20*time.Second, "it listens", func() bool {
		return c.PubSubNumSub(context.Background(), channel).Val()[channel] == 1
	})
	first := mustAcquire(t, l, key, patient)
	var is atomic.Bool
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _, err := l.Acquire(spent{context.Background(), &is}, key, patient)
		t.Errorf("Acquire returned %v", err)
	}()
	await.Within(t, 20*time.Second, "it waits", func() bool { return lockmw.Waiting(l, key) == 1 })
	waiting := lineUp(t, l, key, patient, 1)
	is.Store(true)
	mustRelease(t, first)
	select {
	case v := <-panicked:
		if v != "spent" {
			t.Errorf("panic: %v", v)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the caller whose context has panicked does not return")
	}
	mustRelease(t, <-waiting)
	if err := l.Close(context.Background()); err != nil {
		t.Error(err)
	}
	noKeys(t, c, key, 3*time.Second)
}
