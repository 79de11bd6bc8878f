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
	const answer = store.Evidence(100) // no error
	for _, c := range []struct {
		nodes []store.Evidence
		want  store.Evidence
	}{
		{[]store.Evidence{store.Unreachable, store.Unreachable, store.Unreachable}, store.Unreachable},
		{[]store.Evidence{store.Unreachable, store.Unreachable, answer}, store.Unreachable},
		{[]store.Evidence{store.Unreachable, store.Unreachable, store.Answered}, store.Unreachable},
		{[]store.Evidence{store.Unreachable, store.Silent, answer}, store.Silent},
		{[]store.Evidence{store.Silent, store.Silent, store.Unclear}, store.Silent},
		{[]store.Evidence{store.Unreachable, store.Answered, answer}, store.Answered},
		{[]store.Evidence{store.Answered, store.Answered, store.Unreachable}, store.Answered},
		{[]store.Evidence{store.Unreachable, store.Unclear, answer}, store.Unclear},
		{[]store.Evidence{store.Unclear, store.Unclear, store.Unreachable}, store.Unclear},
		{[]store.Evidence{store.Unreachable, store.Silent, store.Answered, answer, answer}, store.Answered},
		{[]store.Evidence{store.Unreachable, store.Silent, store.Unclear, answer, answer}, store.Unclear},
		{[]store.Evidence{store.Unreachable, store.Silent, store.Unreachable, answer, answer}, store.Silent},
		{[]store.Evidence{store.Unreachable, store.Unreachable, store.Unreachable, answer, answer}, store.Unreachable},
	} {
		s := New(make([]Node, len(c.nodes)), nil)
		var errs []error
		for i, evidence := range c.nodes {
			if evidence != answer {
				errs = append(errs, fmt.Errorf("node %d: %w", i, &store.Error{Err: errors.New("no"), Evidence: evidence}))
			}
		}
		if got := s.noMajority(errs).Evidence; got != c.want {
			t.Errorf("nodes %v: evidence %d, want %d", c.nodes, got, c.want)
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
