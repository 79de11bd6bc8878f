package quorum

import (
	"context"
	"log/slog"

	"github.com/lockmw/kit/internal/janitor"
)

// Settle waits until all nodes have answered what was asked, those too whose answers
// nobody waits for. What is given back in the background may be under way still.
func (s *Store) Settle() { s.calls.Wait() }

// GiveBack waits until all is given back, or the nodes have been silent for so long that
// this is given up. Nothing may be asked meanwhile.
func (s *Store) GiveBack() {
	for i, n := range s.nodes {
		s.janitors[i].Stop(context.Background())
		s.janitors[i] = janitor.New(n.Store, slog.New(slog.DiscardHandler))
	}
}
