package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// Remove implements store.Store. It sends the batch to all nodes, and returns when
// a majority has carried out all of it, or every node has answered. A removal that
// no majority carried out has an error, and the caller may repeat it. Where a
// majority did and a node did not, that node's janitor does it later.
func (s *Store) Remove(ctx context.Context, batch []store.Removal) {
	asks := slices.Clone(batch) // the caller has the batch back before all have answered
	t := askBatch(ctx, s, batch, store.Store.Remove, func(r store.Removal) (bool, error) { return true, r.Err })
	t.certain(context.WithoutCancel(ctx)) // the nodes have ctx's deadline
	for i := range batch {
		_, batch[i].Err = t.outcome(i)
	}
	s.calls.Go(func() {
		t.all()
		t.leaveToJanitors(asks)
	})
}

// leaveToJanitors gives each node's janitor the removals that a majority has carried
// out and the node has not.
func (t *tally[T]) leaveToJanitors(asks []store.Removal) {
	for i := range asks {
		if _, err := t.outcome(i); err != nil {
			continue
		}
		for _, f := range t.items[i].failed {
			t.store.janitors[f.node].AddAt(time.Now().Add(asks[i].Stay), asks[i].Ref, false)
		}
	}
}
