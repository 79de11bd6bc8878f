package quorum

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockmw/kit/internal/store"
)

// Server implements store.Store: the nodes answer together, for all keys.
func (s *Store) Server(string) string { return "" }

// Ping implements store.Store: a majority of the nodes must be there.
func (s *Store) Ping(ctx context.Context, key string, p store.Progress) error {
	errs := make(chan error, len(s.nodes))
	together := progress{busy: make(map[int]bool), heard: make(map[int]bool), majority: s.majority, nodes: len(s.nodes), of: p}
	for i, n := range s.nodes {
		s.calls.Go(func() {
			err := n.Store.Ping(ctx, key, together.node(i))
			if err != nil {
				err = fmt.Errorf("%s: %w", n.Name, err)
			}
			errs <- err
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

// A progress is that of a ping (store.Progress), made of those of the nodes' pings.
type progress struct {
	nodes, majority int
	of              store.Progress

	mu    sync.Mutex
	busy  map[int]bool // nodes of which the ping waits for something else than the node
	heard map[int]bool // nodes that have said something since a majority had
}

// node returns the progress of the ping of node i.
func (p *progress) node(i int) store.Progress {
	return store.Progress{Heard: func() { p.hears(i) }, Waits: func(server bool) { p.waits(i, server) }}
}

// hears takes in that node i has said something. What the nodes say together is what a
// majority says.
func (p *progress) hears(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard[i] = true
	if len(p.heard) >= p.majority {
		clear(p.heard)
		p.of.Heard()
	}
}

// waits takes in what the ping of node i waits for. While the nodes that others hold up are
// so many that the rest is no majority, the ping waits for something else than servers.
func (p *progress) waits(i int, server bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if server {
		delete(p.busy, i)
	} else {
		p.busy[i] = true
	}
	p.of.Waits(p.nodes-len(p.busy) >= p.majority)
}
