package quorum

import (
	"context"

	"github.com/lockmw/kit/internal/store"
)

// Renew implements store.Store: at all nodes, one exchange each. A lease that
// a majority has renewed is held, and one that a majority denies is lost; a node
// that lost it is not given it again. It returns when every lease's outcome is
// certain, or ctx ends.
func (s *Store) Renew(ctx context.Context, batch []store.Renewal) {
	t := askBatch(ctx, s, batch, store.Store.Renew, func(r store.Renewal) (bool, error) { return r.Held, r.Err })
	t.certain(ctx)
	for i := range batch {
		batch[i].Held, batch[i].Err = t.outcome(i)
	}
}
