package quorum

import (
	"context"
	"fmt"

	"github.com/lockmw/kit/internal/store"
)

var _ store.Pinger = (*Store)(nil)

// Server implements store.Pinger: the nodes answer together, for all keys.
func (s *Store) Server(string) string { return "" }

// Ping implements store.Pinger: a majority of the nodes must be there.
func (s *Store) Ping(ctx context.Context, key string) error {
	errs := make(chan error, len(s.nodes))
	for _, n := range s.nodes {
		s.calls.Go(func() {
			if p, ok := n.Store.(store.Pinger); ok {
				if err := p.Ping(ctx, key); err != nil {
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
