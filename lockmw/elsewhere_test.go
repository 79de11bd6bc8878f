package lockmw_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A Cluster in which another master has taken the place of one while a Locker was idle is no outage: nobody may run without a lock
// that the new master has given away.
func TestAnOldTopologyDoesNotFailOpen(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	for name, end := range map[string]func(s *redistest.Server) error{
		"the old master was killed":  func(s *redistest.Server) error { s.Kill(); return nil },
		"the old master was stopped": (*redistest.Server).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, master := redistest.Real(t), redistest.Real(t)
			var addr atomic.Value // of the master
			addr.Store(old.Addr())
			client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				time.Sleep(30 * time.Millisecond) // it is far away
				return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr.Load().(string)}}}}, nil
			}})
			t.Cleanup(func() { _ = client.Close() })
			l := testenv.Open(t, client)
			mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
			addr.Store(master.Addr())
			if err := end(old); err != nil {
				t.Fatal(err)
			}
			held := mustAcquire(t, testenv.Open(t, master.Client(t)), "k", lockmw.Policy{})
			var calls sync.WaitGroup
			for i := range 20 {
				p := lockmw.Policy{FailOpen: true}
				if i%2 == 0 {
					p.Wait = 2 * time.Second
				}
				calls.Go(func() {
					_, lease, err := l.Acquire(context.Background(), "k", p)
					if err == nil {
						t.Errorf("with Wait %v: it runs beside the holder, fence %d", p.Wait, lease.Fence())
						_ = lease.Release(context.Background())
					}
				})
			}
			calls.Wait()
			mustRelease(t, held)
			mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{Wait: 5 * time.Second}))
		})
	}
}

// One Sentinel of three hangs, and the master is well: a process that has just begun does not run without its lock.
func TestASentinelThatHangsDoesNotFailOpen(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	w := redistest.Sentinel(t)
	if err := w.SentinelServers()[0].Stop(); err != nil {
		t.Fatal(err)
	}
	l := testenv.Open(t, w.Client(t))
	await.Within(t, 20*time.Second, "the lock is taken", func() bool {
		_, lease, err := l.Acquire(t.Context(), "k", lockmw.Policy{FailOpen: true})
		if err != nil {
			if !errors.Is(err, lockmw.ErrUnavailable) {
				t.Error(err)
			}
			return false
		}
		if lease.Fence() == 0 {
			t.Error("it runs without the lock")
		}
		mustRelease(t, lease)
		return true
	})
}
