package quorum

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockmw/kit/internal/store"
)

var _ store.Pinger = (*Store)(nil)

// Server implements store.Pinger: the nodes answer together, for all keys.
func (s *Store) Server(string) string { return "" }

// Ping implements store.Pinger: a majority of the nodes must be there.
func (s *Store) Ping(ctx context.Context, key string, waits func(server bool)) error {
	errs := make(chan error, len(s.nodes))
	busy := busyNodes{of: make([]bool, len(s.nodes)), most: len(s.nodes) - s.majority, waits: waits}
	for i, n := range s.nodes {
		s.calls.Go(func() {
			if p, ok := n.Store.(store.Pinger); ok {
				if err := p.Ping(ctx, key, func(server bool) { busy.note(i, !server) }); err != nil {
					errs <- fmt.Errorf("%s: %w", n.Name, err)
					return
				}
			}
			errs <- nil
		})
	}
	there, failed := 0, []error(nil)
	for range s.nodes {
		if err := <-errs; err != nil {
			failed = append(failed, err)
		} else if there++; there >= s.majority {
			return nil // nobody waits for the others
		}
	}
	return s.noMajority(failed)
}

// busyNodes are those of which a ping waits for something else than the node, see
// store.Pinger. While they are more than most, the others are no majority, and the
// ping waits for something else than servers.
type busyNodes struct {
	mu    sync.Mutex
	of    []bool // the nodes
	n     int
	most  int
	waits func(server bool)
}

// note takes in what the ping of node i waits for.
func (b *busyNodes) note(i int, busy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[i] != busy {
		b.of[i] = busy
		if busy {
			b.n++
		} else {
			b.n--
		}
	}
	b.waits(b.n <= b.most)
}
