package quorum_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/quorum"
	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

// A lateNode is a node to which an attempt takes a while, as over a connection that is
// being set up.
type lateNode struct {
	store.Store
	late time.Duration
}

// Acquire implements store.Store.
func (n lateNode) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	time.Sleep(n.late)
	return n.Store.Acquire(ctx, r)
}

// inMemory returns a quorum of three nodes without sockets, whose first one is behind what wrap returns.
func inMemory(t *testing.T, wrap func(first store.Store) store.Store) (*quorum.Store, []*redistest.Mini) {
	t.Helper()
	var nodes []quorum.Node
	var minis []*redistest.Mini
	for i := range 3 {
		m := redistest.InMemory(t)
		minis = append(minis, m)
		s, err := redisstore.New(m.Client(t), "lock", "node")
		if err != nil {
			t.Fatal(err)
		}
		n := quorum.Node{Name: s.Addr(), Store: s}
		if i == 0 {
			n.Store = wrap(s)
		}
		nodes = append(nodes, n)
	}
	return quorum.New(nodes, slog.New(slog.DiscardHandler)), minis
}

// granted takes the lock k for a minute.
func granted(t *testing.T, s *quorum.Store) store.Ref {
	t.Helper()
	ref := store.Ref{Key: "k", Token: s.NewToken(""), TTL: time.Minute}
	if a, err := s.Acquire(t.Context(), store.Request{Ref: ref}); err != nil || !a.Granted {
		t.Fatalf("Acquire = %+v, %v, want a grant", a, err)
	}
	return ref
}

// A release may reach a node before the attempt that it ends, and finds nothing there.
// What the attempt then takes is given back, whenever it comes within a second.
func TestAReleaseThatOvertakesAnAttempt(t *testing.T) {
	for _, late := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, minis := inMemory(t, func(first store.Store) store.Store { return lateNode{first, late} })
				defer s.Close()
				ref := granted(t, s)
				if did, _, err := s.Release(t.Context(), store.Give{Ref: ref}); err != nil || did != store.Freed {
					t.Fatalf("Release = %v, %v, want Freed", did, err)
				}
				time.Sleep(late + time.Millisecond)
				if late > time.Millisecond && len(minis[0].Keys()) == 0 {
					t.Error("the attempt has not come to the first node after the release")
				}
				time.Sleep(2 * time.Second)
				for i, m := range minis {
					if left := m.Keys(); len(left) > 0 {
						t.Errorf("node %d: there is left %q", i, left)
					}
				}
			})
		})
	}
}
