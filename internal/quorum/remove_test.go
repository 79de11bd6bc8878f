package quorum_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// An absentNode does not carry out its first removal.
type absentNode struct {
	store.Store
	asked atomic.Bool
}

// Remove implements store.Store.
func (n *absentNode) Remove(ctx context.Context, batch []store.Removal) {
	if n.asked.Swap(true) {
		n.Store.Remove(ctx, batch)
		return
	}
	for i := range batch {
		batch[i].Err = &store.Error{Err: errors.New("away")}
	}
}

// A node that was away when a lock was given back that stays taken gives it back later, and not before that time is over.
func TestANodesLockStaysTakenThatIsRemovedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, minis := inMemory(t, func(first store.Store) store.Store { return &absentNode{Store: first} })
		defer s.Close()
		const stay = 5 * time.Second
		began := time.Now()
		batch := []store.Removal{{Ref: granted(t, s), Stay: stay}}
		synctest.Wait() // for the third node, which is not needed for a grant
		if s.Remove(t.Context(), batch); batch[0].Err != nil {
			t.Fatal(batch[0].Err)
		}
		time.Sleep(time.Until(began.Add(stay - 10*time.Millisecond)))
		for i, m := range minis {
			if len(m.Keys()) == 0 {
				t.Errorf("node %d: the lock was free before its time", i)
			}
		}
		time.Sleep(2 * time.Second)
		for i, m := range minis {
			if left := m.Keys(); len(left) > 0 {
				t.Errorf("node %d: there is left %q", i, left)
			}
		}
	})
}
