package quorum

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockmw/kit/internal/store"
)

// Renew implements store.Store: at all nodes, one exchange each. A lease that
// a majority has renewed is held; a node that lost it is not given it again.
// It returns when every lease's outcome is certain, or ctx ends.
func (s *Store) Renew(ctx context.Context, batch []store.Renewal) {
	asks := slices.Clone(batch)
	replies := make(chan renewals, len(s.nodes))
	for i, n := range s.nodes {
		s.calls.Go(func() {
			each, cancel := detached(ctx)
			defer cancel()
			mine := slices.Clone(asks)
			n.Store.Renew(each, mine)
			replies <- renewals{i, mine}
		})
	}
	t := newTally(s, batch)
	for range s.nodes {
		select {
		case got := <-replies:
			t.add(got)
		case <-ctx.Done():
			t.finish()
			return
		}
		if t.certain() {
			break
		}
	}
	t.finish()
}

// renewals are one node's answers.
type renewals struct {
	node    int
	answers []store.Renewal
}

// A tally counts the votes on a batch of renewals.
type tally struct {
	store      *Store
	batch      []store.Renewal
	yes, no    []int
	errs       [][]error
	unanswered int // nodes
}

func newTally(s *Store, batch []store.Renewal) *tally {
	n := len(batch)
	return &tally{
		store: s, batch: batch, unanswered: len(s.nodes),
		yes: make([]int, n), no: make([]int, n), errs: make([][]error, n),
	}
}

func (t *tally) add(r renewals) {
	t.unanswered--
	for i, a := range r.answers {
		switch {
		case a.Err != nil:
			t.errs[i] = append(t.errs[i], fmt.Errorf("%s: %w", t.store.nodes[r.node].Name, a.Err))
		case a.Held:
			t.yes[i]++
		default:
			t.no[i]++
		}
	}
}

// certain reports whether no node that is out can change an outcome.
func (t *tally) certain() bool {
	for i := range t.batch {
		if t.yes[i] < t.store.majority && t.no[i] < t.store.majority {
			return t.unanswered == 0
		}
	}
	return true
}

// finish writes the outcomes into the batch. A lease that a majority denies is
// lost. Otherwise a lack of votes is a failure, which may pass.
func (t *tally) finish() {
	for i := range t.batch {
		r := &t.batch[i]
		r.Held, r.Err = t.yes[i] >= t.store.majority, nil
		if r.Held || t.no[i] >= t.store.majority {
			continue
		}
		errs := t.errs[i]
		if t.unanswered > 0 {
			errs = append(errs, fmt.Errorf("%d nodes: %w", t.unanswered, errNoAnswer))
		}
		r.Err = t.store.noMajority(errs)
	}
}
