package quorum

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lockmw/kit/internal/store"
)

// Work may run without its lock when the quorum is away, so it is only if the nodes
// that may have answered others are too few for a lock.
func TestAQuorumIsAwayWithoutAMajority(t *testing.T) {
	const answer = store.Reach(100) // no error
	for _, c := range []struct {
		nodes []store.Reach
		want  store.Reach
	}{
		{[]store.Reach{store.Away, store.Away, store.Away}, store.Away},
		{[]store.Reach{store.Away, store.Away, answer}, store.Away},
		{[]store.Reach{store.Away, store.Away, store.Answered}, store.Away},
		{[]store.Reach{store.Away, store.Silent, answer}, store.Silent},
		{[]store.Reach{store.Silent, store.Silent, store.Unclear}, store.Silent},
		{[]store.Reach{store.Away, store.Answered, answer}, store.Answered},
		{[]store.Reach{store.Answered, store.Answered, store.Away}, store.Answered},
		{[]store.Reach{store.Away, store.Unclear, answer}, store.Unclear},
		{[]store.Reach{store.Unclear, store.Unclear, store.Away}, store.Unclear},
		{[]store.Reach{store.Away, store.Silent, store.Answered, answer, answer}, store.Answered},
		{[]store.Reach{store.Away, store.Silent, store.Unclear, answer, answer}, store.Unclear},
		{[]store.Reach{store.Away, store.Silent, store.Away, answer, answer}, store.Silent},
		{[]store.Reach{store.Away, store.Away, store.Away, answer, answer}, store.Away},
	} {
		s := New(make([]Node, len(c.nodes)), nil)
		var errs []error
		for i, reach := range c.nodes {
			if reach != answer {
				errs = append(errs, fmt.Errorf("node %d: %w", i, &store.Error{Err: errors.New("no"), Reach: reach}))
			}
		}
		if got := s.noMajority(errs).Reach; got != c.want {
			t.Errorf("nodes %v: reach %d, want %d", c.nodes, got, c.want)
		}
	}
}

func TestTheLackOfAMajoritySaysHowManyNodesThereAre(t *testing.T) {
	s := New(make([]Node, 5), nil)
	err := s.noMajority([]error{errors.New("a: refused"), errors.New("b: refused"), errors.New("c: no answer")})
	if got, want := err.Error(), "no majority of the 5 nodes: a: refused; b: refused; c: no answer"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
