package janitor_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/internal/janitor"
	"github.com/lockmw/kit/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// away is a store whose server is away.
type away struct {
	store.Store
	tries atomic.Int64
}

func (s *away) Release(context.Context, store.Ref, bool) (store.Released, error) {
	s.tries.Add(1)
	return store.NotHeld, &store.Error{Err: errors.New("away")}
}

// A server that stays away must not cost more and more.
func TestServerThatIsAwayCostsLittle(t *testing.T) {
	s := new(away)
	j := janitor.New(s, slog.New(slog.DiscardHandler))
	for range 5000 {
		j.Add(store.Ref{Key: "k", Token: "t", TTL: time.Minute}, false)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if left := j.Stop(ctx); left == 0 {
		t.Error("nothing is left to do for a server that is away")
	}
	if n := s.tries.Load(); n > 5000+4*1000 { // the first tries run as they come
		t.Errorf("%d tries", n)
	}
}

// What is due later ends by its TTL: Stop does not wait for it.
func TestStopDoesNotWaitForWhatIsDueLater(t *testing.T) {
	j := janitor.New(new(away), slog.New(slog.DiscardHandler))
	j.AddAt(time.Now().Add(time.Hour), store.Ref{Key: "k", Token: "t"}, true)
	began := time.Now()
	if left := j.Stop(context.Background()); left != 0 || time.Since(began) > 5*time.Second {
		t.Errorf("Stop = %d after %v", left, time.Since(began))
	}
}
