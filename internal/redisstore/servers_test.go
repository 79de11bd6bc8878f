package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

// overPool sends PING over pool.
func overPool(ctx context.Context, pool *wire.Pool) error {
	_, err := pool.Do(ctx, &wire.Call{Commands: appendArgs(nil, []any{"ping"}), Replies: 1, Deadline: time.Now().Add(patience)})
	return err
}

// The connections to a node that is no master any more are closed, and nothing that is
// under way over them is lost.
func TestAServerThatNobodyAsksForIsForgotten(t *testing.T) {
	proxy := faultproxy.Start(t, redistest.Embedded(t).Addr())
	departed := &redis.Options{Network: "tcp", Addr: proxy.Addr(), PoolSize: 10, ReadTimeout: patience}
	other := &redis.Options{Network: "tcp", Addr: redistest.Embedded(t).Addr(), PoolSize: 10}
	s := servers{dialer: newDialer(departed)}
	defer s.dialer.close()
	defer s.close()
	begin := time.Now()
	pool := s.of(departed, begin)
	if err := overPool(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	proxy.Stall(faultproxy.Both)
	done := make(chan error, 1)
	go func() { done <- overPool(t.Context(), pool) }()
	await.Until(t, "a command is under way", func() bool { return pool.Open() == 1 })

	later := begin.Add(unusedFor)
	s.of(other, later)
	proxy.Heal()
	if err := <-done; err != nil {
		t.Errorf("what was under way: %v", err)
	}
	if n := pool.Connections(); n != 1 {
		t.Errorf("%d connections while something was under way, want 1", n)
	}
	s.of(other, later.Add(unusedFor))
	await.Until(t, "its connection is closed", func() bool { return pool.Connections() == 0 })
	s.running.Wait()
	if err := overPool(t.Context(), pool); !errors.Is(err, wire.ErrClosed) {
		t.Errorf("over the pool that was closed: %v, want %v", err, wire.ErrClosed)
	}
	if err := overPool(t.Context(), s.of(departed, later.Add(unusedFor))); err != nil {
		t.Errorf("when it is a master again: %v", err)
	}
}
