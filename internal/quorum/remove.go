package quorum

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockmw/kit/internal/store"
)

// Remove implements store.Store: at all nodes, one exchange each. It returns
// when a majority has carried out all of it, or every node has answered. What a
// majority carried out and a node did not, that node's janitor does later; what
// no majority carried out is an error, and the caller's to repeat.
func (s *Store) Remove(ctx context.Context, batch []store.Removal) {
	asks := slices.Clone(batch)
	replies := make(chan removals, len(s.nodes))
	for i, n := range s.nodes {
		s.calls.Go(func() {
			each, cancel := detached(ctx)
			defer cancel()
			mine := slices.Clone(asks)
			n.Store.Remove(each, mine)
			replies <- removals{i, mine}
		})
	}
	t := &removalTally{store: s, failed: make([][]failure, len(asks))}
	for !t.certain() {
		t.add(<-replies)
	}
	for i := range batch {
		batch[i].Err = t.outcome(i)
	}
	s.calls.Go(func() {
		for t.answered < len(s.nodes) {
			t.add(<-replies)
		}
		t.leaveToJanitors(asks)
	})
}

// removals are one node's answers.
type removals struct {
	node    int
	answers []store.Removal
}

// A failure is a node that did not carry out a removal.
type failure struct {
	node int
	err  error
}

// A removalTally counts the nodes that did not carry out a batch's removals.
type removalTally struct {
	store    *Store
	answered int         // nodes
	failed   [][]failure // of each removal
	most     int         // of any removal
}

func (t *removalTally) add(r removals) {
	t.answered++
	for i, a := range r.answers {
		if a.Err != nil {
			t.failed[i] = append(t.failed[i], failure{r.node, a.Err})
			t.most = max(t.most, len(t.failed[i]))
		}
	}
}

// certain reports whether no node that is out can change an outcome.
func (t *removalTally) certain() bool {
	return t.answered-t.most >= t.store.majority || t.answered == len(t.store.nodes)
}

// outcome is nil for a removal that a majority has carried out.
func (t *removalTally) outcome(i int) error {
	failed := t.failed[i]
	if len(t.store.nodes)-len(failed) >= t.store.majority {
		return nil
	}
	errs := make([]error, len(failed))
	for n, f := range failed {
		errs[n] = fmt.Errorf("%s: %w", t.store.nodes[f.node].Name, f.err)
	}
	return t.store.noMajority(errs)
}

// leaveToJanitors has the nodes' janitors do what a majority has carried out and
// their nodes have not.
func (t *removalTally) leaveToJanitors(asks []store.Removal) {
	for i := range asks {
		if t.outcome(i) != nil {
			continue
		}
		for _, f := range t.failed[i] {
			t.store.janitors[f.node].Add(asks[i].Ref, false)
		}
	}
}
