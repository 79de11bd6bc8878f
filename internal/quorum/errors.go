package quorum

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockmw/kit/internal/store"
)

// errNoAnswer is the error of nodes that had not answered when the wait for them
// ended.
var errNoAnswer = errors.New("no answer in time")

// A majorityError says that too few nodes agree, because some did not answer.
type majorityError struct {
	errs  []error
	nodes int
}

// Error names the nodes that did not answer, and why.
func (e *majorityError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = err.Error()
	}
	return fmt.Sprintf("no majority of the %d nodes: %s", e.nodes, strings.Join(texts, "; "))
}

// Unwrap returns the nodes' errors.
func (e *majorityError) Unwrap() []error { return e.errs }

// noMajority describes a command that too few nodes answered, for the reasons
// in errs. It is permanent if a majority of the nodes says so of theirs.
func (s *Store) noMajority(errs []error) *store.Error {
	permanent := 0
	for _, err := range errs {
		if store.AsError(err).Permanent {
			permanent++
		}
	}
	return &store.Error{
		Err: &majorityError{errs, len(s.nodes)}, Permanent: permanent >= s.majority, Ambiguous: true, Evidence: s.evidence(errs),
	}
}

// evidence says whether the quorum can be reached, when some of its nodes failed for
// the reasons in errs. It cannot if so many nodes are away, or silent, that the
// others are no majority. It has answered if a majority did. What is between the two
// is unclear: a node whose error is unclear may have been there for others.
func (s *Store) evidence(errs []error) store.Evidence {
	count := make(map[store.Evidence]int)
	for _, err := range errs {
		count[store.AsError(err).Evidence]++
	}
	tooMany := len(s.nodes) - s.majority + 1
	answered := len(s.nodes) - len(errs) + count[store.Answered]
	switch {
	case count[store.Unreachable] >= tooMany:
		return store.Unreachable
	case count[store.Unreachable]+count[store.Silent] >= tooMany:
		return store.Silent
	case answered >= s.majority:
		return store.Answered
	}
	return store.Unclear
}
