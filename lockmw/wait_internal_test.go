package lockmw

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// sweeping is a returning store that counts the clean-ups it is sent.
type sweeping struct {
	returning
	removed atomic.Int64
}

func (s *sweeping) Remove(_ context.Context, batch []store.Removal) { s.removed.Add(int64(len(batch))) }

// To a server that cannot be reached no clean-up is sent. It is, once that is back.
func TestCleanUpsWaitUntilTheServerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := gather(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := new(sweeping)
		l := newLocker(s, o)
		if _, _, err := l.Acquire(context.Background(), "k", Policy{}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Acquire = %v, want ErrUnavailable", err)
		}
		synctest.Wait() // for the ping, too: until that is refused, the server is in doubt, and asked
		l.janitor.Add(store.Ref{Key: "k", Token: "t", TTL: time.Minute}, true)
		time.Sleep(20 * time.Second)
		if n := s.removed.Load(); n != 0 {
			t.Errorf("%d clean-ups were sent to a server that is away", n)
		}
		s.back.Store(true)
		time.Sleep(time.Second)
		if n := s.removed.Load(); n != 1 {
			t.Errorf("%d clean-ups were sent within a second of its return, want 1", n)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
