package quorum

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockmw/kit/internal/store"
)

// A tally is a batch that all nodes were asked to carry out, one exchange each,
// and the count of their votes on each of its items. It is for one goroutine at a
// time.
type tally[T any] struct {
	store      *Store
	vote       func(T) (yes bool, err error)
	replies    chan nodeAnswers[T]
	unanswered int // nodes
	items      []itemVotes
}

// nodeAnswers are one node's answers, in the order of the batch.
type nodeAnswers[T any] struct {
	node    int
	answers []T
}

// itemVotes are those on one item of a batch.
type itemVotes struct {
	yes, no int
	failed  []failure
}

// A failure is a node that gave no vote.
type failure struct {
	node int
	err  error
}

// askBatch has command ask all nodes, each with a copy of the batch, which it fills
// in. Their calls go on when nobody waits for them any more. vote reads a node's
// answer on one item.
func askBatch[T any](
	ctx context.Context, s *Store, batch []T,
	command func(store.Store, context.Context, []T), vote func(T) (yes bool, err error),
) *tally[T] {
	t := &tally[T]{
		store: s, vote: vote, replies: make(chan nodeAnswers[T], len(s.nodes)), unanswered: len(s.nodes), items: make([]itemVotes, len(batch)),
	}
	for i, n := range s.nodes {
		answers := slices.Clone(batch)
		s.calls.Go(func() {
			each, cancel := detached(ctx)
			defer cancel()
			command(n.Store, each, answers)
			t.replies <- nodeAnswers[T]{i, answers}
		})
	}
	return t
}

// certain counts until no node that is out can change an outcome, or ctx ends.
func (t *tally[T]) certain(ctx context.Context) {
	for t.open() {
		select {
		case got := <-t.replies:
			t.count(got)
		case <-ctx.Done():
			return
		}
	}
}

// all counts until every node has answered.
func (t *tally[T]) all() {
	for t.unanswered > 0 {
		t.count(<-t.replies)
	}
}

func (t *tally[T]) count(r nodeAnswers[T]) {
	t.unanswered--
	for i, answer := range r.answers {
		item := &t.items[i]
		switch yes, err := t.vote(answer); {
		case err != nil:
			item.failed = append(item.failed, failure{r.node, err})
		case yes:
			item.yes++
		default:
			item.no++
		}
	}
}

// open reports whether a node that is out can change an outcome.
func (t *tally[T]) open() bool {
	return t.unanswered > 0 && slices.ContainsFunc(t.items, func(v itemVotes) bool {
		return v.yes < t.store.majority && v.no < t.store.majority
	})
}

// outcome is what a majority says of an item. A lack of votes is an error, which
// may pass.
func (t *tally[T]) outcome(i int) (yes bool, err error) {
	item := t.items[i]
	if item.yes >= t.store.majority || item.no >= t.store.majority {
		return item.yes >= t.store.majority, nil
	}
	errs := make([]error, 0, len(item.failed)+1)
	for _, f := range item.failed {
		errs = append(errs, fmt.Errorf("%s: %w", t.store.nodes[f.node].Name, f.err))
	}
	if t.unanswered > 0 {
		errs = append(errs, fmt.Errorf("%d nodes: %w", t.unanswered, errNoAnswer))
	}
	return false, t.store.noMajority(errs)
}
