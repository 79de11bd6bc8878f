// Package quorum is a store made of stores: independent Redis nodes, of which
// a majority decides (Redlock). A lock is held by whoever has the votes of more
// than half of the nodes, so it outlives the failure of the others.
//
// All nodes are asked at the same time, each within a timeout of its own, and
// the answer is given as soon as the majority is certain; the rest is still
// completed in the background. An attempt that found no majority is taken back
// from all nodes in the background. There is no queue, no hand-over and no
// fence: none of them has a meaning that a minority could not contradict.
//
// A caller takes a new token for its next attempt: taking back the last one may
// arrive late, and must not touch the next one's votes.
//
// Start reading at this file, then acquire.go, batch.go, renew.go and release.go.
package quorum

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/janitor"
	"github.com/lockmw/kit/internal/store"
)

// A Node is one independent store.
type Node struct {
	Name  string // for people: an address
	Store store.Store
}

// Store is a store.Store over a majority of nodes.
type Store struct {
	nodes    []Node
	janitors []*janitor.Janitor // of the nodes
	silent   []atomic.Bool      // by node: it did not answer the last Acquire that it had the time for
	majority int
	calls    sync.WaitGroup // commands under way, also those nobody waits for
}

var _ store.Store = (*Store)(nil)

// New returns a Store over nodes, which it closes at its end. There must be an
// odd number of them, at least three.
func New(nodes []Node, log *slog.Logger) *Store {
	s := &Store{nodes: nodes, silent: make([]atomic.Bool, len(nodes)), majority: len(nodes)/2 + 1}
	for _, n := range nodes {
		s.janitors = append(s.janitors, janitor.New(n.Store, log))
	}
	return s
}

// NewToken implements store.Store.
func (s *Store) NewToken(note string) string { return s.nodes[0].Store.NewToken(note) }

// Listen implements store.Store: there are no hand-overs to tell.
func (s *Store) Listen(context.Context, store.Listener) error { return nil }

// Queues implements store.Store: there are none.
func (s *Store) Queues() bool { return false }

// TakesSeveral implements store.Store: nothing takes several keys at a majority in one step.
func (s *Store) TakesSeveral() bool { return false }

// AcquireAll implements store.Store. It is not called.
func (s *Store) AcquireAll(context.Context, []store.Ref, time.Time, func(bool, error)) ([]int64, error) {
	return nil, nil
}

// closeBudget is what Close gives the clean-ups under way.
const closeBudget = 2 * time.Second

// Close implements store.Store.
func (s *Store) Close() error {
	s.calls.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeBudget)
	defer cancel()
	var stops sync.WaitGroup
	for _, j := range s.janitors {
		stops.Go(func() { j.Stop(ctx) }) // what is left at a node that is away ends by its TTL
	}
	stops.Wait()
	errs := make([]error, len(s.nodes))
	var closings sync.WaitGroup
	for i, n := range s.nodes {
		closings.Go(func() { errs[i] = n.Store.Close() })
	}
	closings.Wait()
	return errors.Join(errs...)
}

// EvictionPolicy implements store.Store: it is a maxmemory-policy that lets a node throw held locks away,
// or "noeviction". It does not wait for other nodes where one has told such a policy.
func (s *Store) EvictionPolicy(ctx context.Context) (string, error) {
	const safe = "noeviction"
	policies := make(chan string, len(s.nodes))
	for _, n := range s.nodes {
		s.calls.Go(func() {
			policy, err := n.Store.EvictionPolicy(ctx)
			if err != nil {
				policy = safe
			}
			policies <- policy
		})
	}
	for range s.nodes {
		if policy := <-policies; policy != safe {
			return policy, nil
		}
	}
	return safe, nil
}

// detached returns a context for one node, with ctx's deadline: whoever has a
// majority leaves, and the other nodes are still to be asked.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(context.WithoutCancel(ctx), deadline)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), mostNodeTimeout)
}

// Nodes get less time than a command has as a whole, but enough for a new
// connection over a slow network. A node that is away costs that only when its
// vote is needed.
const (
	leastNodeTimeout = 250 * time.Millisecond
	mostNodeTimeout  = 500 * time.Millisecond
)

// nodesUntil returns until when the nodes may take that are asked now for what r asks.
func nodesUntil(now time.Time, r store.Request) time.Time {
	until := now.Add(min(max(r.TTL/4, leastNodeTimeout), mostNodeTimeout))
	if !r.Until.IsZero() && r.Until.Before(until) {
		return r.Until
	}
	return until
}
