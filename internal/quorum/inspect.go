package quorum

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lockmw/kit/internal/store"
)

// Instance implements store.Store: tokens are made by the first node's store.
func (s *Store) Instance() string { return s.nodes[0].Store.Instance() }

// ForceRelease implements store.Store, at all nodes. It fails if it did not
// work at a majority.
func (s *Store) ForceRelease(ctx context.Context, key string, by store.Intervention) error {
	_, err := ask(ctx, s, func(ctx context.Context, n store.Store) (struct{}, error) {
		return struct{}{}, n.ForceRelease(ctx, key, by)
	})
	return err
}

// Inspect implements store.Store: it tells what a majority of the nodes agree
// on. Where none does, as while several compete for the key, nobody has it. Nobody queues at the nodes.
func (s *Store) Inspect(ctx context.Context, key string) (store.Info, error) {
	infos, err := ask(ctx, s, func(ctx context.Context, n store.Store) (store.Info, error) {
		return n.Inspect(ctx, key)
	})
	if err != nil {
		return store.Info{}, err
	}
	seen := make(map[string][]store.Info) // by instance, the nodes where it holds
	for _, info := range infos {
		for _, name := range instances(info) {
			seen[name] = append(seen[name], info)
		}
	}
	var agreed store.Info
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		at := seen[name]
		if len(at) < s.majority {
			continue
		}
		agreed.Kind = at[0].Kind
		for _, h := range at[0].Holders {
			if h.Instance == name {
				h.CoolingDown = s.coolingDown(name, at)
				agreed.Holders = append(agreed.Holders, h)
			}
		}
	}
	return agreed, nil
}

// Health implements store.Store: a majority must be well. What is wrong with the others is
// advice.
func (s *Store) Health(ctx context.Context) (advice []error, err error) {
	told := make([][]error, len(s.nodes))
	errs := make([]error, len(s.nodes))
	var asking sync.WaitGroup
	for i, n := range s.nodes {
		asking.Go(func() { told[i], errs[i] = n.Store.Health(ctx) })
	}
	asking.Wait()
	ill := 0
	for i, n := range s.nodes {
		if errs[i] != nil {
			told[i] = []error{store.AsError(errs[i]).Err}
			ill++
		}
		for _, one := range told[i] {
			advice = append(advice, fmt.Errorf("%s: %w", n.Name, one))
		}
	}
	if len(s.nodes)-ill < s.majority {
		return nil, s.noMajority(advice)
	}
	return advice, nil
}

// Names implements store.Store: one node after the other tells its own. Whatever a majority
// has, one node of each majority has.
func (s *Store) Names(ctx context.Context, prefix string, yield func(names []string) bool) error {
	var errs []error
	for _, n := range s.nodes {
		more := true
		err := n.Store.Names(ctx, prefix, func(names []string) bool {
			more = yield(names)
			return more
		})
		if !more {
			return nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
		}
	}
	if len(s.nodes)-len(errs) < s.majority {
		return s.noMajority(errs)
	}
	return nil
}

// coolingDown reports whether a majority of the nodes says so of the holders by that name.
func (s *Store) coolingDown(name string, at []store.Info) bool {
	yes := 0
	for _, info := range at {
		if !slices.ContainsFunc(info.Holders, func(h store.Holder) bool { return h.Instance == name && !h.CoolingDown }) {
			yes++
		}
	}
	return yes >= s.majority
}

// instances names the processes that hold the lock at a node, each once.
func instances(info store.Info) []string {
	var names []string
	for _, h := range info.Holders {
		names = append(names, h.Instance)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ask sends a command to all nodes and returns the answers, which are those of
// a majority at least.
func ask[T any](ctx context.Context, s *Store, command func(context.Context, store.Store) (T, error)) ([]T, error) {
	type reply struct {
		node   int
		answer T
		err    error
	}
	replies := make(chan reply, len(s.nodes))
	for i, n := range s.nodes {
		s.calls.Go(func() {
			answer, err := command(ctx, n.Store)
			replies <- reply{i, answer, err}
		})
	}
	var answers []T
	var errs []error
	for range s.nodes {
		got := <-replies
		if got.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.nodes[got.node].Name, got.err))
			continue
		}
		answers = append(answers, got.answer)
	}
	if len(answers) < s.majority {
		return nil, s.noMajority(errs)
	}
	return answers, nil
}
