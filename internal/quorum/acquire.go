package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A vote is one node's answer to one attempt.
type vote struct {
	node   int
	answer store.Answer
	err    error
}

// A round is one attempt at all nodes.
type round struct {
	store  *Store
	ref    store.Ref
	ballot []store.Vote
	cast   int

	granted, refused int
	coolingDown      int           // of those who refused, how many say that
	left             time.Duration // the least of those who refused
	stale            bool
	errs             []error
}

// Acquire implements store.Store. The nodes are asked with Try whatever r says:
// there is no queue.
func (s *Store) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	if err := ctx.Err(); err != nil {
		return store.Answer{}, &store.Error{Err: err} // never sent
	}
	type reply struct {
		answer store.Answer
		err    error
	}
	var taken atomic.Bool // by the caller who left, or by the reply
	replies := make(chan reply, 1)
	s.calls.Go(func() {
		s.vote(r.Ref, nodesUntil(time.Now(), r), func(rd *round) {
			answer, err := rd.outcome()
			mine := taken.CompareAndSwap(false, true)
			if !mine || !answer.Granted {
				rd.takeBack()
			}
			if mine {
				replies <- reply{answer, err}
			} else if r.Late != nil {
				r.Late(store.Answer{}, err) // taken back already
			}
		})
	})
	select {
	case got := <-replies:
		return got.answer, got.err
	case <-ctx.Done():
		if taken.CompareAndSwap(false, true) {
			return store.Answer{}, &store.Error{Err: context.Cause(ctx), Ambiguous: true, Pending: true}
		}
		got := <-replies
		return got.answer, got.err
	}
}

// vote puts one attempt to all nodes and calls decided, once, when the outcome
// is certain. It returns when every node has answered; what a node says after
// a decision against the attempt is taken back.
func (s *Store) vote(ref store.Ref, until time.Time, decided func(*round)) {
	votes := make(chan vote, len(s.nodes))
	for i, n := range s.nodes {
		s.calls.Go(func() {
			// No ctx: whoever leaves does not keep the others from an answer.
			answer, err := n.Store.Acquire(context.Background(), store.Request{Ref: ref, Join: store.Try, Until: until})
			s.silent[i].Store(err != nil && store.AsError(err).Evidence == store.Silent)
			votes <- vote{i, answer, err}
		})
	}
	rd := &round{store: s, ref: ref, ballot: make([]store.Vote, len(s.nodes))}
	for i, n := range s.nodes {
		rd.ballot[i].Node = n.Name
	}
	done := false
	for range s.nodes {
		rd.count(<-votes)
		if !done && rd.certain() {
			done = true
			decided(rd)
		}
	}
}

func (rd *round) count(v vote) {
	rd.cast++
	b := &rd.ballot[v.node]
	switch {
	case v.err != nil:
		b.Err = v.err
		rd.stale = rd.stale || store.AsError(v.err).Stale
		rd.errs = append(rd.errs, fmt.Errorf("%s: %w", b.Node, v.err))
	case v.answer.Granted:
		b.Granted = true
		rd.granted++
	default:
		b.Refused = true
		rd.refused++
		if v.answer.CoolingDown {
			rd.coolingDown++
		}
		if rd.left == 0 || v.answer.Left < rd.left {
			rd.left = v.answer.Left
		}
	}
}

// certain reports whether the votes that are out cannot change the outcome, or are
// not worth waiting for. While several compete and have some votes each, nobody gets
// the lock; so where a majority has answered, a node that was silent the last time is
// not waited for until its time is up.
func (rd *round) certain() bool {
	m := rd.store.majority
	return rd.granted >= m || rd.refused >= m || rd.cast == len(rd.ballot) ||
		rd.granted+rd.refused >= m && rd.onlySilentOut()
}

// onlySilentOut reports whether all votes that are out are those of silent nodes.
func (rd *round) onlySilentOut() bool {
	for i, v := range rd.ballot {
		if !v.Granted && !v.Refused && v.Err == nil && !rd.store.silent[i].Load() {
			return false
		}
	}
	return true
}

// votes returns the ballot as it is now: further votes may be counted while
// others read it.
func (rd *round) votes() *store.Ballot {
	return &store.Ballot{Votes: slices.Clone(rd.ballot)}
}

// outcome is what the votes say. While a majority of the nodes answers, a lack
// of votes is contention: others have them, or their attempts fell together
// with this one.
func (rd *round) outcome() (store.Answer, error) {
	switch {
	case rd.granted >= rd.store.majority:
		return store.Answer{Granted: true}, nil
	case rd.granted+rd.refused >= rd.store.majority:
		return store.Answer{Left: rd.left, CoolingDown: rd.coolingDown >= rd.store.majority, Ballot: rd.votes()}, nil
	}
	e := rd.store.noMajority(rd.errs)
	e.Ambiguous = false // it is taken back
	e.Stale, e.Ballot = rd.stale, rd.votes()
	return store.Answer{}, e
}

// takeBack has the janitors give back what the attempt has, or may yet get, at
// every node. Only a node that answered is sure to have nothing under way.
func (rd *round) takeBack() {
	for i, v := range rd.ballot {
		if v.Err != nil && !store.AsError(v.Err).Ambiguous {
			continue // it was not asked
		}
		rd.store.janitors[i].Add(rd.ref, v.Granted || v.Refused)
	}
}
